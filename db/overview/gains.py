"""What IAS gains with the rewards of each calibrator: against best-of-N, and against a fixed n of equal cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from prmcal.db.overview.ranking import PLACE, mean_over_places
from prmcal.db.overview.types import Gain, Quantity
from prmcal.db.queries.cells import Role, with_role
from prmcal.db.reader import frame
from prmcal.db.statistics.budgets import equal_cost_values
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, skewed_interval
from prmcal.db.tables import Cell, Job, QuestionResult, SampleAccuracy

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Gains:
    """The gains of all calibrators, for the highest target C of the grid.

    Attributes
    ----------
    target : float or None
        The target C; None if no cell of best-of-n + IAS is done.
    by_calibrator : dict of str to Gain
    """

    target: float | None
    by_calibrator: dict[str, Gain]


def read_gains(connection: sa.Connection, places: pd.DataFrame) -> Gains:
    """Read what IAS gains at some places.

    Parameters
    ----------
    connection : Connection
    places : DataFrame
        Columns dataset, llm and prm.
    """
    adaptive = _cells(connection, "recomputed", places)
    adaptive = adaptive[adaptive["target"].notna()]
    if adaptive.empty:
        return Gains(None, {})
    target = float(adaptive["target"].max())
    adaptive = adaptive[adaptive["target"] == target]
    lowest = adaptive.groupby("calibrator")["level"].transform("min")
    adaptive = adaptive[(adaptive["level"] == lowest) | lowest.isna()]
    full = _cells(connection, "full budget", places)
    values = _values(connection, [*adaptive["cell_id"], *full["cell_id"]])
    full = _with_most_samples(full, values["samples"])
    budgets = _budgets(full)
    fixed = _of_cells(full, values["accuracy"]) if budgets else None
    spent = _of_cells(adaptive, values["samples"])
    right = _of_cells(adaptive, values["accuracy"])
    equal = against_equal_cost(spent, _accuracies(connection, spent))
    # Without N, the samples have no known upper end.
    rule = partial(bounded_interval, upper=float(max(budgets))) if budgets else skewed_interval
    found = {}
    for calibrator, own in adaptive.groupby("calibrator", sort=False):
        here = right[right["calibrator"] == calibrator]
        if here.empty:
            continue
        own_spent = spent[spent["calibrator"] == calibrator]
        found[str(calibrator)] = Gain(
            level=float(own["level"].iloc[0]),
            accuracy=mean_over_places(here, bounded_interval),
            samples=mean_over_places(own_spent, rule),
            share=_share(own_spent, full),
            to_best_of_n=None if fixed is None else _difference(here, fixed),
            to_equal_cost=_mean_if_any(equal[equal["calibrator"] == calibrator], len(here)),
            budgets=_budgets(full.merge(own[PLACE].drop_duplicates(), on=PLACE)),
            places=len(here[PLACE].drop_duplicates()),
        )
    return Gains(target, found)


def _cells(connection: sa.Connection, role: Role, places: pd.DataFrame) -> pd.DataFrame:
    """Return the finished cells of the strategies with a role at these places."""
    names = with_role(connection, role)
    query = (
        sa.select(Cell.cell_id, *(getattr(Cell, name) for name in (*PLACE, "calibrator", "target", "level")))
        .where(
            Cell.leaderboard == "scaling",
            Cell.status == "done",
            Cell.strategy.in_(names),
            Cell.version == "",
        )
        .order_by(Cell.cell_id)
    )
    return frame(connection, query).merge(places[PLACE].drop_duplicates(), on=PLACE)


def _values(connection: sa.Connection, cells: list[str]) -> dict[str, pd.DataFrame]:
    """Return accuracy and samples of the questions of cells, by metric: cell_id, question_id and value."""
    query = sa.select(
        QuestionResult.cell_id, QuestionResult.metric, QuestionResult.question_id, QuestionResult.value
    ).where(QuestionResult.cell_id.in_(cells), QuestionResult.metric.in_(("accuracy", "samples")))
    table = frame(connection, query)
    return {name: table[table["metric"] == name].drop(columns="metric") for name in ("accuracy", "samples")}


def _of_cells(cells: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return dataset, llm, prm, calibrator, question_id and value, in an order that depends on the names only."""
    joined = cells[["cell_id", *PLACE, "calibrator"]].merge(values, on="cell_id")
    return joined.sort_values([*PLACE, "calibrator", "question_id"], ignore_index=True)


def _with_most_samples(full: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of best-of-N, with N in the column `most`: the largest n of best-of-n at each place."""
    drawn = full["cell_id"].map(samples.groupby("cell_id")["value"].max())
    with_n = full.assign(most=drawn)[drawn.notna()].astype({"most": "int64"})
    return with_n[with_n["most"] == with_n.groupby(PLACE)["most"].transform("max")]


def _budgets(full: pd.DataFrame) -> tuple[int, ...]:
    return tuple(sorted(set(full["most"])))


def _share(spent: pd.DataFrame, full: pd.DataFrame) -> Quantity | None:
    """Return the samples divided by N of their place, as a mean over places; None if a place has no best-of-n."""
    both = spent.merge(full[[*PLACE, "most"]].drop_duplicates(), on=PLACE)
    return _mean_if_any(both.assign(value=both["value"] / both["most"]), len(spent), bounded_interval)


def _difference(values: pd.DataFrame, fixed: pd.DataFrame) -> Quantity | None:
    keys = [*PLACE, "question_id"]
    both = values.merge(fixed[[*keys, "value"]], on=keys, suffixes=("", "_fixed"))
    return _mean_if_any(both.assign(value=both["value"] - both["value_fixed"]), len(values))


def _mean_if_any(
    values: pd.DataFrame, expected: int, rule: IntervalRule = skewed_interval
) -> Quantity | None:
    """Return the mean over places, or None if some of the questions that it is compared on have no value."""
    return mean_over_places(values, rule) if len(values) == expected and expected else None


def against_equal_cost(spent: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of IAS minus that of a fixed n with the same mean samples, for each question.

    The values are those of :func:`prmcal.db.statistics.budgets.equal_cost_values`.

    Parameters
    ----------
    spent : DataFrame
        Columns dataset, llm, prm, calibrator, question_id and value: the samples of IAS.
    curves : DataFrame
        Columns dataset, llm, prm, question_id, samples (from 1 to N) and accuracy of best-of-n.

    Returns
    -------
    DataFrame
        The columns of `spent`. Places with questions that have no curve are left out.
    """
    import pandas as pd

    tables = {
        place: rows.pivot_table(index="question_id", columns="samples", values="accuracy", sort=True)
        for place, rows in curves.groupby(PLACE, sort=False)
    }
    found = []
    for (*place, _), own in spent.groupby([*PLACE, "calibrator"], sort=False):
        table = tables.get(tuple(place))
        if table is not None and own["question_id"].isin(table.index).all():
            accuracy = table.loc[own["question_id"]].to_numpy(np.float64)
            samples = own["value"].to_numpy(np.float64).round().astype(np.int64)
            if samples.max() <= accuracy.shape[1]:
                found.append(own.assign(value=equal_cost_values(accuracy, samples[:, None])[:, 0]))
    return pd.concat(found) if found else spent.head(0)


def _accuracies(connection: sa.Connection, places: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of best-of-n on each question for every n."""
    keys = frame(
        connection,
        sa.select(Job.job_key, *(getattr(Job, name) for name in PLACE)).where(
            Job.kind == "curves", Job.calibrator.is_(None), Job.status == "done"
        ),
    ).merge(places[PLACE].drop_duplicates(), on=PLACE)
    query = sa.select(
        SampleAccuracy.job_key, SampleAccuracy.question_id, SampleAccuracy.samples, SampleAccuracy.accuracy
    ).where(SampleAccuracy.job_key.in_(list(keys["job_key"])))
    return frame(connection, query).astype({"samples": "int64"}).merge(keys, on="job_key")
