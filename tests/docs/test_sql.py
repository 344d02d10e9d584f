"""The page on SQL: each of its queries has rows, and its list of tables is complete."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from prmcal.db import catalog
from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.run_folder import published_path
from prmcal.db.tables import Base
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_ten_queries_and_all_tables() -> None:
    assert [query.split(".")[0] for query in QUERIES] == [f"-- {number}" for number in range(1, 11)]
    (tables,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert set(Base.metadata.tables) - set(re.findall(r"\w+", tables)) == {"schema_version"}


@pytest.mark.parametrize("query", QUERIES, ids=[query.splitlines()[0][3:] for query in QUERIES])
def test_each_query_has_rows(small_run: Path, query: str) -> None:
    with duckdb.connect(str(published_path(small_run)), read_only=True) as connection:
        assert connection.execute(query).fetchall()


def test_views_have_the_values_of_the_leaderboard_and_of_the_steps(small_run: Path) -> None:
    path = published_path(small_run)
    with duckdb.connect(str(path), read_only=True) as connection:
        cells = connection.execute("FROM calibration").df().set_index("cell_id")
        steps = connection.execute("FROM steps WHERE NOT has_answer").df()
    stored = catalog.leaderboard(path, "calibration").set_index("cell_id").dropna(subset=[RANKING_METRIC])
    for column, name in (("brier", RANKING_METRIC), ("too_high_by", "signed_error")):
        assert cells[column].to_dict() == stored[name].astype(float).to_dict()
    for cell in stored.index:
        own = steps[steps["cell_id"] == cell].set_index(["question_id", "trajectory"])
        off = (own["score_after"] - own["is_right"]).abs().groupby(level=[0, 1]).mean()
        solutions = catalog.solutions(path, cell).set_index(["question_id", "trajectory"]).sort_index()
        assert off.tolist() == pytest.approx(solutions["after"].astype(float).tolist())
