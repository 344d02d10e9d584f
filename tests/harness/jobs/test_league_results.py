"""The league of a small run: against the pool itself, against the leaderboard, and how it is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
import yaml

from prmcal.db.overview.query import league, league_points
from prmcal.db.overview.types import League
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import published_path
from prmcal.db.tables import Comparison, QuestionResult
from prmcal.db.text.overview import league_sentence
from prmcal.registry.strategies.best_of import best_of_n
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here

QUESTIONS, POOL = 20, 16
STRATEGIES = [
    "pass@1",
    "best-of-n",
    "best-of-n + IAS",
    "first good enough",
    "oracle IAS",
    "fixed n of equal cost",
]
SETTING = {"dataset": "synthetic-questions", "llm": "weak", "prm": "verifier"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("league")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "calibrators": ["uncalibrated", "isotonic"],
        "strategies": STRATEGIES,
        "datasets": [{"name": "synthetic-questions", "questions": QUESTIONS}],
        "calibration": {"name": "synthetic-questions", "questions": 20, "trajectories": 2, "follow_ups": 4},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": POOL, "targets": [0.9]},
        "league": True,
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(data))
    assert run_here(folder / "grid.yaml", folder / "out").failed_cells == 0
    return folder / "out"


@pytest.fixture(scope="module")
def database(folder: Path) -> Path:
    return folder / "leaderboard.duckdb"


@pytest.fixture(scope="module")
def cells(database: Path) -> pd.DataFrame:
    return leaderboard(database, "league")


@pytest.fixture(scope="module")
def found(database: Path) -> League:
    return league(database)


def of(cells: pd.DataFrame, strategy: str, calibrator: str | None = None, llm: str = "weak") -> pd.Series:
    chosen = cells[(cells["strategy"] == strategy) & (cells["llm"] == llm)]
    if calibrator is not None:
        chosen = chosen[chosen["calibrator"] == calibrator]
    (row,) = (row for _, row in chosen.iterrows())
    return row


def test_entries_are_strategies_with_a_curve_and_their_calibrators(found: League) -> None:
    assert {row.entry.name for row in found.rows} == {
        "best-of-n",
        "first good enough",
        "oracle IAS",
        "best-of-n + IAS with uncalibrated",
        "best-of-n + IAS with isotonic",
    }
    assert found.settings == 2
    assert [row.entry.name for row in found.rows if row.rank is None] == ["oracle IAS"]


def test_a_fixed_n_gains_nothing_over_itself_and_has_the_accuracies_of_the_pool(
    database: Path, cells: pd.DataFrame
) -> None:
    for llm in ("weak", "strong"):
        fixed = of(cells, "best-of-n", llm=llm)
        assert fixed["area_gain"] == pytest.approx(0, abs=1e-12) == fixed["saving_95"]
        correct, scores = pool(database, llm)
        counts = [2, 4, 8, 16]
        expected = best_of_n(scores, correct, np.array(counts)).mean(axis=0)
        assert [fixed[f"accuracy_at_{n}"] for n in counts] == pytest.approx(expected, abs=1e-12)


def pool(database: Path, llm: str) -> tuple[np.ndarray, np.ndarray]:
    """Correctness and last scores of the test questions, each of shape (questions, M)."""
    here = f"j.split = 'test' AND j.llm = '{llm}'"
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.sql(
            f"SELECT question_id, trajectory, correct FROM trajectories t JOIN jobs j USING (job_key) WHERE {here}"
        ).df()
        scored = connection.sql(
            "SELECT question_id, trajectory, arg_max(logit, step) AS logit FROM rewards r JOIN jobs j USING (job_key) "
            f"WHERE {here} GROUP BY ALL"
        ).df()
    return tuple(
        table.pivot(index="question_id", columns="trajectory", values=name).sort_index().to_numpy()
        for table, name in ((rows, "correct"), (scored, "logit"))
    )


def test_points_are_those_of_the_strategy_and_begin_with_one_sample(database: Path, cells: pd.DataFrame) -> None:
    points = league_points(database, **SETTING)
    correct, _ = pool(database, "weak")
    for _, curve in points.groupby("cell_id"):
        assert curve["samples"].is_monotonic_increasing
        first = curve.iloc[0]
        assert (first["samples"], first["accuracy"]) == (1.0, pytest.approx(correct.mean()))
        assert ((curve["accuracy_low"] <= curve["accuracy"]) & (curve["accuracy"] <= curve["accuracy_high"])).all()
    errors = points.groupby("strategy")["order_error"].max()
    assert errors["best-of-n"] == 0 <= errors["first good enough"] < 0.02


def test_means_over_settings_and_tests_are_those_of_cells(database: Path, cells: pd.DataFrame, found: League) -> None:
    with engine_for(database, read_only=True).connect() as connection:
        tests = pd.read_sql(sa.select(Comparison).where(Comparison.metric == "area"), connection)
    tests = tests[tests["leaderboard"] == "league"]
    for row in found.rows:
        own = cells[cells["strategy"] == row.entry.strategy]
        if row.entry.calibrator:
            own = own[own["calibrator"] == row.entry.calibrator]
        assert row.gain.value == pytest.approx(own["area_gain"].mean())
        assert row.accuracies[4].value == pytest.approx(own["accuracy_at_4"].mean())
        assert row.saving.value == pytest.approx(own["saving_95"].mean())
        ids = set(own["cell_id"])
        mine = tests[tests["cell_a"].isin(ids) != tests["cell_b"].isin(ids)]
        real = mine["p_adjusted"] < 0.05
        ahead = (mine["difference"] > 0) == mine["cell_a"].isin(ids)
        assert (row.outcomes.wins, row.outcomes.ties, row.outcomes.losses) == (
            (real & ahead).sum(),
            (~real).sum(),
            (real & ~ahead).sum(),
        )


def test_a_filter_keeps_settings_and_entries(database: Path) -> None:
    weak = league(database, llm=["weak"])
    assert weak.settings == 1 and {row.settings for row in weak.rows} == {1}
    names = {row.entry.name for row in league(database, calibrator=["isotonic"]).rows}
    assert "best-of-n + IAS with uncalibrated" not in names and "best-of-n" in names


def test_the_command_says_who_is_ahead_and_exports_all_digits(folder: Path, prmcal: Prmcal, found: League) -> None:
    printed = prmcal("leaderboard", folder, "--table", "league")
    assert printed.returncode == 0, printed.stderr
    text = " ".join(printed.stdout.split())
    assert league_sentence(found) in text
    # A line with the path of the folder may be longer: it can be copied as it is.
    assert max(len(line) for line in printed.stdout.splitlines() if str(folder) not in line) <= 100
    exported = json.loads(prmcal("leaderboard", folder, "--table", "league", "--format", "json").stdout)
    assert [each["area_gain"] for each in exported] == [row.gain.value for row in found.rows]


def test_the_yardstick_is_the_best_fixed_setting_that_other_questions_choose(
    cells: pd.DataFrame, database: Path, found: League
) -> None:
    """One setting at a time and one budget at a time, with one sample and best-of-n as fixed rules."""
    with engine_for(database, read_only=True).connect() as connection:
        values = pd.read_sql(sa.select(QuestionResult), connection)
    budgets = (2, 4, 8, 16)
    wanted: dict[str, list[float]] = {}
    for llm in ("weak", "strong"):
        correct, _ = pool(database, llm)
        half = np.random.default_rng(0).permutation(len(correct)) % 2
        here = cells[cells["llm"] == llm]

        def accuracy(cell: str, budget: int) -> np.ndarray:
            own = values[(values["cell_id"] == cell) & (values["metric"] == f"accuracy_at_{budget}")]
            found: np.ndarray = own.sort_values("question_id")["value"].to_numpy(float)
            return found

        fixed = here.loc[here["strategy"] == "best-of-n", "cell_id"].item()
        choices = {1: correct.mean(axis=1)} | {budget: accuracy(fixed, budget) for budget in budgets}
        for cell in here["cell_id"]:
            gains = []
            for budget in budgets:
                for own in (0, 1):
                    allowed = [each for count, each in choices.items() if count <= budget]
                    rival = max(allowed, key=lambda each: float(each[half != own].mean()))
                    gains.append((accuracy(cell, budget) - rival)[half == own].sum() / len(correct))
            wanted.setdefault(cell.replace(llm, ""), []).append(sum(gains) / len(budgets))
    rows = {row.entry: row for row in found.rows}
    assert len(rows) == len(wanted)
    given = sorted(row.over_fixed.value for row in rows.values() if row.over_fixed)
    assert given == pytest.approx(sorted(float(np.mean(each)) for each in wanted.values()), abs=1e-9)


def test_a_strategy_is_ahead_only_if_no_other_may_be_the_best(found: League) -> None:
    def ranked(second: int) -> str:
        lowest = [1, *(second + place for place in range(len(found.ranked) - 1))]
        rows = [
            replace(row, rank=row.rank and replace(row.rank, rank_low=low))
            for row, low in zip(found.ranked, lowest, strict=True)
        ]
        return league_sentence(replace(found, rows=tuple(rows)))

    first, second, *_ = (row.entry.name for row in found.ranked)
    assert ranked(2).startswith(f"{first} is ahead: ") and f" Behind: {second}" in ranked(2)
    assert ranked(1).startswith(f"No strategy is clearly ahead: 2 of {len(found.ranked)} may be the best.")


def test_a_run_without_a_league_says_how_to_get_one(copied_run: Path, prmcal: Prmcal) -> None:
    with engine_for(published_path(copied_run)).begin() as connection:
        connection.exec_driver_sql("DELETE FROM cells WHERE leaderboard = 'league'")
    printed = prmcal("leaderboard", copied_run, "--table", "league")
    assert "Add 'league: true' to the grid file" in " ".join(printed.stdout.split())
