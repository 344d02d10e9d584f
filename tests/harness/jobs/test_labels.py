"""Which prefixes are labelled how: the bare question has its own follow-ups, and terminal prefixes are told apart."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from prmcal.db import catalog
from prmcal.db.metrics import with_terminal
from prmcal.errors import DataError
from prmcal.harness.jobs.calibrators import without_terminal
from tests.conftest import PLUGINS
from tests.one_process import run_here

SKILL, TRAJECTORIES, FOLLOW_UPS = 0.7, 3, 4


def run(folder: Path, terminal: bool) -> Path:
    """Run a small grid, in the folder of earlier runs, and return its published database."""
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {"llms": data["llms"][:1], "calibrators": ["uncalibrated", "histogram"], "strategies": ["pass@1"]}
    few = {"name": "synthetic-questions", "questions": 30}
    small = {"follow_ups": FOLLOW_UPS, "terminal": terminal}
    data |= {"datasets": [few], "calibration": {**few, "trajectories": TRAJECTORIES, **small}}
    data |= {"measurement": {"measured": TRAJECTORIES, "replicates": 100, **small}, "scaling": {"samples": 4}}
    (folder / "grid.yaml").write_text(yaml.safe_dump(data))
    assert run_here(folder / "grid.yaml", folder / "out").failed_cells == 0
    return folder / "out" / "leaderboard.duckdb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels")


@pytest.fixture(scope="module")
def without(folder: Path) -> pd.DataFrame:
    """The calibration leaderboard of a grid as grids are by default."""
    return catalog.leaderboard(run(folder, terminal=False), "calibration").set_index("calibrator")


@pytest.fixture(scope="module")
def with_all(folder: Path, without: pd.DataFrame) -> pd.DataFrame:
    """The same of a grid that counts terminal prefixes."""
    return catalog.leaderboard(run(folder, terminal=True), "calibration").set_index("calibrator")


@pytest.fixture(scope="module")
def counts(without: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The success counts of both splits."""
    tables = [pd.read_parquet(path) for path in sorted((folder / "out").rglob("successes.parquet"))]
    return pd.concat(tables, ignore_index=True)


def test_the_bare_question_is_followed_up_for_every_trajectory(counts: pd.DataFrame) -> None:
    bare = counts[counts["step"] == 0].groupby("question_id")
    assert (bare["follow_ups"].sum() == TRAJECTORIES * FOLLOW_UPS).all()
    assert (bare["successes"].nunique() > 1).mean() > 0.5  # copies of one draw would all be equal
    steps = bare["question_id"].first().str.extract(r"(\d+)$")[0].astype(int) % 5 + 1
    chances = SKILL ** steps.to_numpy()
    drawn = TRAJECTORIES * FOLLOW_UPS
    error = bare["successes"].sum().to_numpy() - drawn * chances
    assert abs(error.sum()) < 5 * (drawn * chances * (1 - chances)).sum() ** 0.5


def test_terminal_prefixes_are_left_out_of_the_metrics(counts: pd.DataFrame, without: pd.DataFrame) -> None:
    tested = counts[counts["question_id"].str.startswith("test")]
    assert 0 < tested["terminal"].sum() < len(tested)
    assert (without["rows"] == (~tested["terminal"]).sum()).all()
    assert (without["brier"] != without[with_terminal("brier")]).all()


def test_a_grid_may_count_terminal_prefixes(folder: Path, without: pd.DataFrame, with_all: pd.DataFrame) -> None:
    shared = ["brier", "ece", "signed_error", "coverage_0.5"]
    both = without.loc["uncalibrated", [with_terminal(name) for name in shared]]
    assert both.to_list() == with_all.loc["uncalibrated", shared].to_list()
    assert with_terminal("brier") not in with_all
    # Pages and the report count the same prefixes as the metrics.
    database, rows = folder / "out" / "leaderboard.duckdb", with_all.loc["uncalibrated", "rows"]
    assert rows > without.loc["uncalibrated", "rows"]
    bars = catalog.error_histograms(database)
    assert bars.loc[bars["calibrator"] == "uncalibrated", "count"].sum() == rows
    solutions = catalog.solutions(database, with_all.loc["uncalibrated", "cell_id"])
    assert solutions["prefixes"].sum() == rows
    # The calibrator was fitted again, to more prefixes.
    fitted = without.loc["histogram", with_terminal("brier")], with_all.loc["histogram", "brier"]
    assert fitted[0] != fitted[1]


@pytest.mark.parametrize("use", ["calibration", "measurement"])
def test_terminal_prefixes_alone_are_an_error_that_names_the_option(use: str) -> None:
    with pytest.raises(DataError, match=f"Set '{use}.terminal' to true"):
        without_terminal(pd.DataFrame({"terminal": [True, True]}), use)
