"""The values, tests and counts that the overview and the league read, and the gains of IAS."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import SETTING
from prmcal.db.overview.ranking import means_over_settings
from prmcal.db.overview.types import Gain, Outcomes
from prmcal.db.queries.cells import Role, with_role
from prmcal.db.reader import frame
from prmcal.db.statistics.budgets import equal_cost_values
from prmcal.db.statistics.intervals import Estimate, IntervalRule, bounded_interval, gain_interval, skewed_interval
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.tables import Cell, Comparison, DatasetRow, JobRow, PluginRow, QuestionResult, Result, SampleAccuracy


def question_values(
    connection: sa.Connection, cells: pd.DataFrame, metrics: Sequence[str], order: Sequence[str]
) -> pd.DataFrame:
    """Return the columns of some cells with metric, question_id and value, sorted by columns with names."""
    query = sa.select(*QuestionResult.columns("cell_id", "metric", "question_id", "value")).where(
        QuestionResult.metric.in_(metrics), QuestionResult.cell_id.in_(list(cells["cell_id"]))
    )
    # Grouping by the numbers of names takes much less time than by the names themselves.
    names = [name for name in (*SETTING, "calibrator") if name in cells]
    values = frame(connection, query).astype({"question_id": "category"})
    rows = cells.astype(dict.fromkeys(names, "category")).merge(values, on="cell_id")
    return rows.sort_values([*order, "question_id"], ignore_index=True)


def results(connection: sa.Connection, cells: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the columns of some cells with metric, value, low and high, over all questions."""
    query = sa.select(*Result.columns("cell_id", "metric", "value", "low", "high")).where(
        Result.metric.in_(metrics), Result.question_level.is_(None)
    )
    return cells.merge(frame(connection, query), on="cell_id")


def tests_between(connection: sa.Connection, cells: pd.DataFrame, metric: str, competitor: str) -> pd.DataFrame:
    """Return the paired tests of a metric between finished cells of one leaderboard.

    The columns are metric, cell_a, cell_b, difference (A - B), p_adjusted, first and second: the values of the column
    `competitor` for A and for B.
    """
    query = sa.select(*Comparison.columns("metric", "cell_a", "cell_b", "difference", "p_adjusted")).where(
        Comparison.metric == metric
    )
    names = cells.set_index("cell_id")[competitor]
    tests = frame(connection, query)
    tests = tests[tests["cell_a"].isin(names.index) & tests["cell_b"].isin(names.index)]
    return tests.assign(
        first=names.reindex(tests["cell_a"]).to_numpy(), second=names.reindex(tests["cell_b"]).to_numpy()
    )


def counted_tests(tests: pd.DataFrame, *, lower_wins: bool, without: Collection[Any] = ()) -> dict[Any, Outcomes]:
    """Return the wins, ties and losses of each competitor. Tests against competitors in `without` do not count."""
    tested = tests.dropna(subset=["p_adjusted"])
    significant = tested["p_adjusted"] < SIGNIFICANCE
    ahead = tested["difference"] < 0 if lower_wins else tested["difference"] > 0
    pairs = ("first", "second", ahead), ("second", "first", ~ahead)
    sides = pd.concat(
        pd.DataFrame({"name": tested[name], "rival": tested[rival], "won": won, "significant": significant})
        for name, rival, won in pairs
    )
    sides = sides[~sides["rival"].isin(list(without))]
    won, significant = sides["won"], sides["significant"]
    outcomes = pd.DataFrame({"win": significant & won, "tie": ~significant, "loss": significant & ~won})
    outcomes = outcomes.groupby(sides["name"]).sum()
    return {name: Outcomes(int(win), int(tie), int(loss)) for name, win, tie, loss in outcomes.itertuples()}


def citations(connection: sa.Connection, kind: str) -> dict[str, str]:
    """Return where the plugins of a kind were published, by their names in the grid."""
    rows = connection.execute(sa.select(PluginRow.name, PluginRow.citation).where(PluginRow.kind == kind))
    return {row.name: row.citation for row in rows}


def tested_questions(connection: sa.Connection, cells: pd.DataFrame) -> dict[str, int]:
    """Return the number of test questions of the data sets of some cells."""
    query = sa.select(DatasetRow.name, DatasetRow.questions).where(
        DatasetRow.split == "test", DatasetRow.name.in_(list(cells["dataset"].unique()))
    )
    return {row.name: row.questions for row in connection.execute(query)}


def status_counts(cells: pd.DataFrame) -> dict[str, int]:
    """Return the number of cells by status: done, failed, pending."""
    counts = cells["status"].value_counts()
    return {name: int(counts.get(name, 0)) for name in ("done", "failed", "pending")}


def read_gains(connection: sa.Connection, settings: pd.DataFrame) -> dict[str, Gain]:
    """Read the gain of IAS with the highest target C of the grid at some settings, by calibrator.

    `settings` has the columns dataset, llm and prm. There is no gain if no cell of best-of-n + IAS is done.
    """
    adaptive = _cells(connection, "recomputed", settings)
    adaptive = adaptive[adaptive["target"].notna()]
    if adaptive.empty:
        return {}
    adaptive = adaptive[adaptive["target"] == adaptive["target"].max()]
    lowest = adaptive.groupby("calibrator")["level"].transform("min")
    adaptive = adaptive[(adaptive["level"] == lowest) | lowest.isna()]
    spent, ias_accuracies = _values(connection, adaptive)
    full = _cells(connection, "full budget", settings)
    drawn_samples, fixed = _values(connection, full)
    # N, in the column `most`: the largest n of best-of-n at each setting.
    full = full.assign(most=full["cell_id"].map(drawn_samples.groupby("cell_id")["value"].max()))
    full = full.dropna(subset=["most"]).astype({"most": "int64"})
    full = full[full["most"] == full.groupby(SETTING)["most"].transform("max")]
    fixed = fixed[fixed["cell_id"].isin(full["cell_id"])]
    of_settings = full[[*SETTING, "most"]].drop_duplicates()
    shares = spent.merge(of_settings, on=SETTING)
    shares = shares.assign(value=shares["value"] / shares["most"])
    keys = [*SETTING, "question_id"]
    differences = ias_accuracies.merge(fixed[[*keys, "value"]], on=keys, suffixes=("", "_fixed"))
    differences = differences.assign(value=differences["value"] - differences["value_fixed"])
    equal = against_equal_cost(spent, sample_accuracies(connection, spent))
    # Without N, the samples have no known upper end.
    rule = partial(bounded_interval, upper=float(full["most"].max())) if len(full) else skewed_interval
    counts = ias_accuracies.groupby("calibrator", observed=True).size()

    def means(values: pd.DataFrame, interval: IntervalRule) -> dict[Any, Estimate]:
        """Return the means of the calibrators that have a value for each question."""
        complete = values.groupby("calibrator", observed=True).size().eq(counts)
        return means_over_settings(values[values["calibrator"].isin(complete.index[complete])], "calibrator", interval)

    shares_of_most, to_fixed = means(shares, bounded_interval), means(differences, gain_interval)
    samples, to_equal = means(spent, rule), means(equal, gain_interval)
    return {
        str(calibrator): Gain(
            accuracy=accuracy,
            samples=samples[calibrator],
            share=shares_of_most.get(calibrator),
            to_best_of_n=to_fixed.get(calibrator),
            to_equal_cost=to_equal.get(calibrator),
        )
        for calibrator, accuracy in means(ias_accuracies, bounded_interval).items()
    }


def _cells(connection: sa.Connection, role: Role, settings: pd.DataFrame) -> pd.DataFrame:
    query = sa.select(*Cell.columns("cell_id", *SETTING, "calibrator", "target", "level")).order_by(Cell.cell_id)
    query = query.where(Cell.leaderboard == "scaling", Cell.status == "done")
    query = query.where(Cell.strategy.in_(with_role(connection, role)))
    return frame(connection, query).merge(settings[SETTING].drop_duplicates(), on=SETTING)


def _values(connection: sa.Connection, cells: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the samples and the accuracy of cells on each question, in an order that depends on the names only."""
    named_cells = cells[["cell_id", *SETTING, "calibrator"]]
    rows = question_values(connection, named_cells, ["samples", "accuracy"], [*SETTING, "calibrator"])
    return rows[rows["metric"] == "samples"], rows[rows["metric"] == "accuracy"]


def against_equal_cost(spent: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of IAS minus the accuracy of a fixed n with the same mean samples, for each question.

    The values come from :func:`prmcal.db.statistics.budgets.equal_cost_values`. `spent` has the samples of IAS in the
    columns dataset, llm, prm, calibrator, question_id and value. `curves` has the accuracy of best-of-n for each number
    of samples from 1 to N. The result has the columns of `spent`. Settings with questions that have no curve are left
    out.
    """
    tables = {
        setting: rows.pivot_table(index="question_id", columns="samples", values="accuracy", sort=True)
        for setting, rows in curves.groupby(SETTING, sort=False)
    }
    differences = []
    for (*setting, _), ias_rows in spent.groupby([*SETTING, "calibrator"], sort=False):
        table = tables.get(tuple(setting))
        if table is not None and ias_rows["question_id"].isin(table.index).all():
            accuracy = table.loc[ias_rows["question_id"]].to_numpy(np.float64)
            samples = ias_rows["value"].to_numpy(np.float64).round().astype(np.int64)
            if samples.max() <= accuracy.shape[1]:
                differences.append(ias_rows.assign(value=equal_cost_values(accuracy, samples[:, None])[:, 0]))
    return pd.concat(differences) if differences else spent.head(0)


def sample_accuracies(connection: sa.Connection, settings: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of best-of-n on each question for every n."""
    curves = JobRow.kind == "curves", JobRow.calibrator.is_(None), JobRow.status == "done"
    keys = frame(connection, sa.select(*JobRow.columns("job_key", *SETTING)).where(*curves))
    keys = keys.merge(settings[SETTING].drop_duplicates(), on=SETTING)
    query = sa.select(*SampleAccuracy.columns("job_key", "question_id", "samples", "accuracy")).where(
        SampleAccuracy.job_key.in_(list(keys["job_key"]))
    )
    return frame(connection, query).astype({"samples": "int64"}).merge(keys, on="job_key")
