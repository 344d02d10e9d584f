"""Data in published forms: what a run exports reads back as it is, and first passes of others become recordings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prmcal import Prefix, Sampling
from prmcal.errors import DataError, StorageError
from prmcal.harness.audit.scored import scored_records
from prmcal.harness.cli.export import write_success_rates
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.records import read_records
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here

SYNTHETIC = PLUGINS / "synthetic.py"
PASSES: list[dict[str, Any]] = [
    {"question": "1+1?", "gold_answer": "2", "generations": ["a) 1+1\n\n\\boxed{2}", "\\boxed{3}"]},
    {"question": "2+2?", "gold_answer": 4, "generations": ["\\boxed{4}", "no idea"]},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    folder = tmp_path_factory.mktemp("published")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "calibrators": ["temperature", "isotonic"],
        "calibration": {"name": "synthetic-questions", "questions": 6, "trajectories": 2, "follow_ups": 8},
        "datasets": [{"name": "synthetic-questions", "questions": 6}],
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 4},
        "strategies": ["pass@1"],
        "shards": {"questions": 3, "trajectories": 2},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(data))
    run(folder, "out")
    done = prmcal("export", folder / "out", "--success-rates", folder / "success.jsonl")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def run(folder: Path, out: str) -> dict[str, Any]:
    """Run the grid in a folder: its calibration leaderboard by cell."""
    assert run_here(folder / "grid.yaml", folder / out).failed_cells == 0
    listed = json.loads(render_leaderboard(folder / out, "calibration", "json"))
    return {each["cell_id"]: each for each in listed}


def test_every_prefix_is_exported_with_its_success_rate(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    files = [tmp_path / f"success{suffix}" for suffix in (".jsonl", ".json", ".parquet")]
    for file in files:
        done = prmcal("export", finished, "--success-rates", file)
        assert done.returncode == 0, done.stderr
    lines, listed, columns = ([record for _, record in read_records(file)] for file in files)
    assert lines == listed == columns
    assert {(row["llm"], row["split"], row["follow_ups"]) for row in lines} == {
        (llm, split, count) for llm in ("weak", "strong") for split, count in (("calibration", 8), ("test", 4))
    }  # blocks of follow-ups are added up
    assert all(row["success_prob"] == row["successes"] / row["follow_ups"] for row in lines)
    trajectories: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in lines:
        key = (row["llm"], row["split"], row["question_id"], row["trajectory"])
        trajectories.setdefault(key, []).append(row)
    assert len(trajectories) == 2 * 2 * 6 * 2
    for rows in trajectories.values():
        texts = [row["reasoning_prefix"] for row in rows]
        assert texts[0] == ""
        assert all(long.startswith(short) and long != short for short, long in itertools.pairwise(texts))
        assert "boxed" in texts[-1]
        assert rows[-1]["success_prob"] in (0.0, 1.0)


def calibrated_on(finished: Path, folder: Path, files: dict[str, Any], **calibration: Any) -> None:
    """Write the finished run's grid once more, calibrated on published success rates."""
    data = yaml.safe_load((finished.parent / "grid.yaml").read_text())
    published = {"name": "published", "plugin": "success-rates", "arguments": {"files": files}}
    data["calibration"] = {**published, "trajectories": 2, "follow_ups": 8, **calibration}
    (folder / "grid.yaml").write_text(yaml.safe_dump(data))


def test_what_was_exported_is_calibrated_on_as_it_was_here(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    exported = finished.parent / "success.jsonl"
    calibrated_on(finished, tmp_path, {"weak": str(exported), "strong": [str(exported)]})
    found = run(tmp_path, "out")
    assert list(found.values()) == json.loads(render_leaderboard(finished, "calibration", "json"))
    assert found["calibration/weak/verifier/isotonic/synthetic-questions"]["brier"] < 0.2


def test_the_authors_forms_are_calibrated_on(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    """Their calibration set says neither how many follow-ups nor whose prefix; their *_mc_accuracy.json says whose."""
    rows = [record for _, record in read_records(finished.parent / "success.jsonl")]
    for llm in ("weak", "strong"):
        of_llm = [row for row in rows if (row["llm"], row["split"]) == (llm, "calibration")]
        published = [{name: row[name] for name in ("question", "reasoning_prefix", "success_prob")} for row in of_llm]
        (tmp_path / f"{llm}.json").write_text(json.dumps(published))
        chunks = [
            {
                "question": row["question"],
                "response_id": row["trajectory"],
                "first_pass_prefix": row["reasoning_prefix"] + "\n\n",
                "k_prefix_segment": row["step"],
                "accuracy": row["success_prob"],
                "answer": "",
            }
            for row in of_llm
        ]
        (tmp_path / f"{llm}_mc_accuracy.json").write_text(
            json.dumps([*chunks, chunks[0] | {"first_pass_prefix": None}])
        )
    files = {"weak": str(tmp_path / "weak.json"), "strong": str(tmp_path / "strong_mc_accuracy.json")}
    calibrated_on(finished, tmp_path, files)
    found = run(tmp_path, "out")
    for each in json.loads(render_leaderboard(finished, "calibration", "json")):
        assert found[each["cell_id"]]["brier"] == pytest.approx(each["brier"])


def test_an_unknown_form_and_an_empty_folder_are_refused(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    wrong = prmcal("export", finished, "--success-rates", tmp_path / "success.csv")
    assert (wrong.returncode, "must end in .jsonl, .json, .parquet" in wrong.stderr) == (2, True)
    neither = prmcal("export", finished)
    assert (neither.returncode, "--html PAGE or --success-rates FILE" in neither.stderr) == (2, True)
    empty = prmcal("export", tmp_path, "--success-rates", tmp_path / "success.json")
    assert (empty.returncode, "No grid was run" in empty.stderr) == (2, True)


def test_first_passes_of_the_papers_code_are_a_recording(tmp_path: Path) -> None:
    chunks = [tmp_path / f"inference_chunk_{number}.json" for number in range(2)]
    for chunk, record in zip(chunks, PASSES, strict=True):
        chunk.write_text(json.dumps([record]))
    rewards = np.array([[0.9, 0.25], [1.0, 0.0]], dtype=np.float16)
    np.save(tmp_path / "rewards.npy", rewards)
    files = [*map(str, chunks), str(tmp_path / "rewards.npy")]
    questions = datasets.create("jsonl", path=files).questions("test")
    assert [(each.id, each.text, each.answer) for each in questions] == [("1", "1+1?", "2"), ("2", "2+2?", "4")]
    llm, prm = llms.create("recorded", path=files), prms.create("recorded", path=files, scale="probability")
    for question, record, expected in zip(questions, PASSES, rewards, strict=True):
        (drawn,) = llm.generate([Prefix(question.text)], 2, Sampling(), 0)
        assert [each.text for each in drawn] == record["generations"]
        assert [each.correct for each in drawn] == [None, None]
        trajectories = [tuple(text.split("\n\n")) for text in record["generations"]]
        scores = prm.score(question.text, trajectories)
        np.testing.assert_allclose([each.reward[-1] for each in scores], expected, atol=1e-3)
        assert all(np.isfinite(each.logit[-1]) for each in scores)
    found = scored_records(read_files(list(map(Path, files))), "first passes", Fields())
    assert (found.scale.name, found.solutions["label"].tolist()) == ("probability", [1.0, 0.0, 1.0, 0.0])


def whole_array(path: Path) -> bytes:
    np.save(path, np.full((2, 2), 0.5))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: b"", "cannot be read as a .npy file"),
        (lambda whole: whole[:100], "cannot be read as a .npy file"),
        (lambda whole: whole.replace(b"(2, 2)", b"(9" + 14 * b"9" + b",)"), "cannot be read as a .npy file"),
        (lambda whole: whole.replace(b"{'descr'", b"(((((((("), "cannot be read as a .npy file"),
        (lambda whole: b"PK\x03\x04" + whole, "cannot be read as a .npy file"),
        (lambda whole: whole.replace(b"(2, 2)", b"(4,)  "), "must be one array of numbers"),
    ],
    ids=["empty", "cut", "too large", "no header", "no archive", "flat"],
)
def test_damaged_rewards_are_refused(damage: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    passes, rewards = tmp_path / "pass.json", tmp_path / "rewards.npy"
    passes.write_text(json.dumps(PASSES))
    rewards.write_bytes(damage(whole_array(rewards)))
    with pytest.raises(DataError, match=rf"rewards\.npy {message}"):
        read_files([passes, rewards])


def test_rewards_belong_to_the_solutions_in_their_order(tmp_path: Path) -> None:
    passes, rewards = tmp_path / "pass.json", tmp_path / "rewards.npy"
    passes.write_text(json.dumps(PASSES))
    np.save(rewards, np.full((3, 2), 0.5))
    with pytest.raises(DataError, match=r"pass\.json has 2 records and .*rewards\.npy has 3"):
        read_files([passes, rewards])
    np.save(rewards, np.full((2, 3), 0.5))
    with pytest.raises(DataError, match="'rewards' must be a list with an entry for each of its 2 solutions"):
        scored_records(read_files([passes, rewards]), "first passes", Fields())


def test_a_place_that_cannot_be_written_is_named(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    for out in (tmp_path / "folder.jsonl", tmp_path / "absent" / "out.jsonl", tmp_path / "absent" / "out.parquet"):
        with pytest.raises(StorageError, match=r"cannot be written|is not a file"):
            write_success_rates(finished, out)
