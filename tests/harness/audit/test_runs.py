"""The folder of a run is audited as the run measured it, and a run with several settings asks which."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from prmcal.db import catalog
from prmcal.db.run_folder import published_path
from prmcal.errors import DataError, PrmcalError
from prmcal.harness.audit.audit import audit
from prmcal.registry.reading.fields import Fields
from tests.conftest import PLUGINS, Prmcal
from tests.harness.audit import files
from tests.one_process import run_here


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with two LLMs."""
    folder = tmp_path_factory.mktemp("run")
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "llms": [
            {"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}}
            for name, skill in (("weak", 0.6), ("strong", 0.85))
        ],
        "calibrators": ["uncalibrated", "temperature"],
        "calibration": {"name": "synthetic-questions", "questions": 10, "trajectories": 2, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 12}],
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 4, "targets": [0.9], "levels": [0.5]},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    assert run_here(folder / "grid.yaml", folder / "out").failed_cells == 0
    return folder / "out"


def test_it_measures_what_the_leaderboard_shows(run: Path) -> None:
    board = catalog.leaderboard(published_path(run), "calibration")
    (shown,) = board[(board["llm"] == "weak") & (board["calibrator"] == "uncalibrated")].to_dict("records")
    found = audit(run, only={"llm": ["weak"]})
    error = found.measured.signed_error
    assert error.value == pytest.approx(shown["signed_error"], abs=1e-6)
    # The interval of the board also allows for questions that were not drawn.
    assert shown["signed_error_low"] - 1e-6 <= error.low <= error.high <= shown["signed_error_high"] + 1e-6
    assert found.measured.brier.value == pytest.approx(shown["brier"], abs=1e-6)
    assert found.scored.target == "success rate"
    assert set(found.prefixes["label"]) <= {0, 0.25, 0.5, 0.75, 1}
    assert found.choices is not None
    assert found.choices.solutions == 4
    assert "LLM weak" in found.scored.reading[0]


def test_several_settings_are_an_error_that_names_the_choice(run: Path, prmcal: Prmcal) -> None:
    done = prmcal("audit", run)
    assert done.returncode == 2
    assert "llm strong, weak. Choose one, such as --only llm=strong" in done.stderr
    assert "Traceback" not in done.stderr
    chosen = prmcal("audit", run, "--only", "llm=strong")
    assert chosen.returncode == 0
    assert "LLM strong" in chosen.stdout


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"llm": ["stong"]}, r"has no llm 'stong' with scores and success counts. It has: strong, weak"),
        ({"calibrator": ["isotonic"]}, r"Choose a setting of a run by llm, prm, dataset, split. Got 'calibrator'"),
    ],
)
def test_names_that_a_run_does_not_have_are_refused(run: Path, only: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        audit(run, only=only)


def test_options_of_runs_and_of_files_are_not_mixed(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a run, whose fields are known"):
        audit(run, Fields(score="scores"))
    with pytest.raises(DataError, match="--only chooses from a run or a file, and a table is neither"):
        audit(pd.DataFrame(files.lists_of_steps()), only={"llm": ["weak"]})
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "run.json").write_text("{}")
    with pytest.raises(PrmcalError):
        audit(empty)
