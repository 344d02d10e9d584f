"""What the overview and the league read alike: values of questions, tests between competitors, and counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.overview.types import Outcomes
from prmcal.db.reader import frame
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.tables import Comparison, Dataset, Plugin, QuestionResult, Result

if TYPE_CHECKING:
    import pandas as pd


def question_values(
    connection: sa.Connection, cells: pd.DataFrame, metrics: Sequence[str], order: Sequence[str]
) -> pd.DataFrame:
    """Return the columns of some cells with metric, question_id and value, sorted by columns with names."""
    query = sa.select(*QuestionResult.columns("cell_id", "metric", "question_id", "value")).where(
        QuestionResult.metric.in_(metrics), QuestionResult.cell_id.in_(list(cells["cell_id"]))
    )
    found = cells.merge(frame(connection, query), on="cell_id")
    return found.sort_values([*order, "question_id"], ignore_index=True)


def results(connection: sa.Connection, cells: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the columns of some cells with metric, value, low and high, over all questions."""
    query = sa.select(*Result.columns("cell_id", "metric", "value", "low", "high")).where(
        Result.metric.in_(metrics), Result.question_level.is_(None)
    )
    return cells.merge(frame(connection, query), on="cell_id")


def tests_between(
    connection: sa.Connection, cells: pd.DataFrame, metric: str, competitor: str
) -> pd.DataFrame:
    """Return the paired tests of a metric between finished cells of one leaderboard.

    Returns
    -------
    DataFrame
        Columns metric, cell_a, cell_b, difference (A - B), p_adjusted, first and second: what the column `competitor`
        has for A and for B.
    """
    query = sa.select(*Comparison.columns("metric", "cell_a", "cell_b", "difference", "p_adjusted")).where(
        Comparison.metric == metric
    )
    names = cells.set_index("cell_id")[competitor]
    found = frame(connection, query)
    found = found[found["cell_a"].isin(names.index) & found["cell_b"].isin(names.index)]
    return found.assign(
        first=names.reindex(found["cell_a"]).to_numpy(), second=names.reindex(found["cell_b"]).to_numpy()
    )


def counted_tests(
    tests: pd.DataFrame, *, lower_wins: bool, without: Collection[Any] = ()
) -> dict[Any, Outcomes]:
    """Return the wins, ties and losses of each competitor. Tests against those in `without` do not count."""
    import pandas as pd

    made = tests.dropna(subset=["p_adjusted"])
    real = made["p_adjusted"] < SIGNIFICANCE
    ahead = made["difference"] < 0 if lower_wins else made["difference"] > 0
    sides = pd.concat(
        [
            pd.DataFrame({"own": made[own], "other": made[other], "won": won, "real": real})
            for own, other, won in (("first", "second", ahead), ("second", "first", ~ahead))
        ]
    )
    sides = sides[~sides["other"].isin(list(without))]
    won, real = sides["won"], sides["real"]
    outcomes = (
        pd.DataFrame({"win": real & won, "tie": ~real, "loss": real & ~won}).groupby(sides["own"]).sum()
    )
    return {name: Outcomes(int(win), int(tie), int(loss)) for name, win, tie, loss in outcomes.itertuples()}


def citations(connection: sa.Connection, kind: str) -> dict[str, str]:
    """Return where the plugins of a kind were published, by their names in the grid."""
    rows = connection.execute(sa.select(Plugin.name, Plugin.citation).where(Plugin.kind == kind))
    return {row.name: row.citation for row in rows}


def tested_questions(connection: sa.Connection, cells: pd.DataFrame) -> dict[str, int]:
    """Return the number of test questions of the data sets of some cells."""
    query = sa.select(Dataset.name, Dataset.questions).where(
        Dataset.split == "test", Dataset.name.in_(list(cells["dataset"].unique()))
    )
    return {row.name: row.questions for row in connection.execute(query)}


def status_counts(cells: pd.DataFrame) -> dict[str, int]:
    """Return the number of cells by status: done, failed, pending."""
    counts = cells["status"].value_counts()
    return {name: int(counts.get(name, 0)) for name in ("done", "failed", "pending")}
