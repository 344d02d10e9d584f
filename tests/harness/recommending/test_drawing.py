"""``prmcal recommend --draw``: more trajectories of the calibration questions, beside those of the run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from prmcal.db.run_folder import finished_artifacts
from prmcal.harness.recommending.recommend import recommend, wanted_of
from prmcal.harness.recommending.types import Recommendation
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid, run_arguments

OWN, POOL = 2, 8
FIXED = {"strategy": ["best-of-n"]}
CALIBRATION = {"name": "synthetic-questions", "questions": 12, "trajectories": OWN, "follow_ups": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    folder = tmp_path_factory.mktemp("draw")
    path = grid(
        folder,
        calibration=CALIBRATION,
        calibrators=["uncalibrated"],
        datasets=[{"name": "synthetic-questions", "questions": 12}],
        scaling={"samples": POOL},
        measurement={"measured": 2, "follow_ups": 4, "replicates": 200},
        shards={"questions": 6, "trajectories": 8},
    )
    done = prmcal(*run_arguments(path, folder / "out"))
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def drawn(folder: Path, told: list[int], trajectories: int = POOL) -> Recommendation:
    return recommend(
        folder,
        wanted_of(None, 5, None),
        filters=FIXED,
        trajectories=trajectories,
        workers=1,
        started=lambda samples, seconds: told.append(samples),
    )


def shards(folder: Path) -> dict[tuple[str, str], list[tuple[str, bytes, float]]]:
    """The files of all rollouts and scores, with their content and time."""
    return {
        (kind, key): sorted(
            (file.name, file.read_bytes(), file.stat().st_mtime)
            for file in Store(folder).folder(ArtifactRef(kind, key)).iterdir()
            if file.suffix == ".parquet"
        )
        for kind in ("rollout", "score")
        for key in finished_artifacts(folder, kind)
    }


def test_drawing_keeps_the_run_and_continues_where_it_was_killed(copy: Path) -> None:
    own = shards(copy)
    told: list[int] = []
    found = drawn(copy, told)
    assert told == [12 * (POOL - OWN)]
    assert found.trajectories == POOL and found.more is None
    assert found.recommended.choice.samples == 5
    every = shards(copy)
    assert {name: every[name] for name in own} == own
    new = sorted(every.keys() - own.keys())
    assert len(new) == 2 * 2 * 2  # rollouts and scores, two slices of questions, trajectories 2-4 and 4-8

    again = drawn(copy, told)
    assert len(told) == 1 and again == found  # Everything is there.

    # A killed drawing leaves some shards unfinished, and one half written.
    lost = [name for name in new if name[0] == "score"][:2] + [name for name in new if name[0] == "rollout"][
        :1
    ]
    for kind, key in lost:
        shutil.rmtree(Store(copy).folder(ArtifactRef(kind, key)))
    half = copy / "artifacts" / "rollout" / f".{lost[-1][1]}-half"
    half.mkdir()
    (half / "trajectories.parquet").write_bytes(b"half")
    resumed = drawn(copy, told)
    assert len(told) == 2 and resumed == found
    assert not half.exists()
    after = shards(copy)
    for name, files in every.items():
        assert [each[:2] for each in after[name]] == [each[:2] for each in files]
        assert name in lost or after[name] == files


def test_fewer_trajectories_are_among_the_drawn_ones(copy: Path) -> None:
    told: list[int] = []
    drawn(copy, told, 4)
    before = shards(copy)
    drawn(copy, told, 8)
    assert told == [12 * 2, 12 * 4]
    after = shards(copy)
    assert {name: after[name] for name in before} == before


def test_the_cost_is_told_before_the_drawing(copy: Path, prmcal: Prmcal) -> None:
    done = prmcal("recommend", copy, "--strategy", "best-of-n", "--samples", 4, "--draw", 4, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Drawing 24 trajectories of the calibration questions. This takes about")
    assert "n = 4" in done.stdout


def test_no_more_can_be_drawn_after_the_llm_changed(copy: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    plugin = tmp_path / "changed.py"
    head = "class SyntheticLLM(LLM):\n"
    plugin.write_text(SYNTHETIC.read_text().replace(head, f'{head}    version = "9"\n'))
    record = RunFolder(copy).record()
    RunFolder(copy).write_record(replace(record, plugin_files=[str(plugin)]))
    done = prmcal("recommend", copy, "--samples", 4, "--draw", 4)
    assert done.returncode == 2
    assert "have changed since the run" in done.stderr
