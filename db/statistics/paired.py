"""Paired comparisons over questions: differences of replicates, and standings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # its parts are imported when they are used
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Floats
from prmcal.db.metrics import SETTING, Better, MetricColumn
from prmcal.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd


_CONFIDENCE = 0.95
# Smaller differences come from the order of summation.
_ROUNDING = 1e-12
_SMALLEST_EXPONENT = -1000
_BLOCK = 2**17


class PairedDifference(NamedTuple):
    """The difference of two cells, first minus second. See :class:`PairedDifferences`."""

    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """The differences of pairs of cells on the same questions, first minus second."""

    difference: Floats
    low: Floats
    high: Floats
    """The differences and their 95% intervals. An interval is NaN for a single question, and if a resample has no
    value. Of shape (pairs,), float64."""
    p_value: Floats
    """Two-sided p values in (0, 1]; NaN if the interval is NaN. They are at least 2^(1 - questions), the smallest p
    value of the sign test, since a few questions with the same sign are weak evidence. Of shape (pairs,), float64."""
    questions: int
    """Number of questions that the cells were measured on."""


@dataclass(frozen=True, eq=False)
class Replicated:
    """A value with its bootstrap replicates."""

    value: float
    replicates: Floats
    """Values of the resamples; empty for a single question. Values that are compared must have the same resamples. Of
    shape (replicates,), float64."""
    questions: int
    """Number of questions."""
    resampled: str = ""
    """Identifies the questions that were resampled: equal strings mean equal questions."""

    def comparable(self, better: Better | None) -> Replicated:
        """Return the quantity for comparing cells: the value, or its absolute value if 0 is the best value."""
        if better != "near zero":
            return self
        return replace(self, value=abs(self.value), replicates=np.abs(self.replicates))


def replicated_difference(first: Replicated, second: Replicated) -> PairedDifference:
    """Return the difference of two values whose replicates come from the same resamples.

    The interval and the p value belong to one test: p < 0.05 if and only if the interval excludes 0, except that p
    has a lower limit for few questions.

    Raises a ValueError if the replicates come from different resamples.
    """
    differences = replicated_differences([first, second], np.array([0]), np.array([1]))
    return PairedDifference(*(float(getattr(differences, name)[0]) for name in PairedDifference._fields))


def replicated_differences(
    cells: Sequence[Replicated], first: NDArray[np.intp], second: NDArray[np.intp]
) -> PairedDifferences:
    """Return the differences of many pairs of values. `first` and `second` have their indices in `cells`.

    See :func:`replicated_difference`. Raise ValueError if the replicates come from different resamples.
    """
    if len({(cell.replicates.shape, cell.resampled) for cell in cells}) > 1:
        raise ValueError("A paired comparison needs replicates of the same resamples on both sides.")
    questions = cells[0].questions
    values = np.array([cell.value for cell in cells], dtype=np.float64)
    difference = values[first] - values[second]
    error = _errors(np.stack([cell.replicates for cell in cells]), first, second, questions)
    half = scipy.special.stdtrit(questions - 1, (1 + _CONFIDENCE) / 2) * error
    p_value = _p_values(difference, error, questions)
    return PairedDifferences(difference, difference - half, difference + half, p_value, questions)


def _errors(replicates: Floats, first: NDArray[np.intp], second: NDArray[np.intp], questions: int) -> Floats:
    """Return the standard errors of differences, from replicates of shape (cells, replicates)."""
    error: Floats = np.full(len(first), np.nan)
    if not replicates.shape[1] or questions < 2:
        return error
    # A block of the differences fits the processor's cache. All of them at once may not fit into memory.
    for block in np.array_split(np.arange(len(first)), -(-len(first) * replicates.shape[1] // _BLOCK)):
        differences = replicates[first[block]] - replicates[second[block]]
        possible = np.isfinite(differences).all(axis=1)
        error[block[possible]] = np.std(differences[possible], axis=1)
    # The bootstrap variance of n questions is too small by the factor (n - 1) / n.
    error *= np.sqrt(questions / (questions - 1))
    return error


def _p_values(difference: Floats, error: Floats, questions: int) -> Floats:
    smallest = 2.0 ** max(1 - questions, _SMALLEST_EXPONENT)
    certain = error < _ROUNDING
    with np.errstate(divide="ignore", invalid="ignore"):
        tested = 2 * scipy.special.stdtr(questions - 1, -np.abs(difference) / error)
    p_values = np.where(certain, smallest, np.maximum(smallest, tested))
    p_values[np.abs(difference) < _ROUNDING] = 1.0
    p_values[np.isnan(error)] = np.nan
    return p_values


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p values, of shape (comparisons,), for multiple comparisons by Holm's step-down method.

    NaN, for a comparison that was not possible, stays NaN and is not counted. Rejecting adjusted values below alpha has
    a family-wise error rate of at most alpha.
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(raw))
    ascending = tested[np.argsort(raw[tested], kind="stable")]
    factors = np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(1.0, np.maximum.accumulate(raw[ascending] * factors))
    return adjusted


SIGNIFICANCE = 0.05
"""A difference is significant if its p value, after Holm's correction, is below this level."""


def standings(results: pd.DataFrame, tests: pd.DataFrame, descriptions: Mapping[str, MetricColumn]) -> list[str | None]:
    """Rank every value among its competitors.

    `results` has one row per value, with the columns dataset, llm, prm, cell_id, metric and value. `tests` has the
    columns metric, cell_a, cell_b and p_adjusted, where a missing p value means that the comparison was not possible.
    `descriptions` has the metrics. Values of metrics without a best value have no standing. The result has an entry per
    row: see :func:`prmcal.db.queries.leaderboard.measurements`.
    """
    import pandas as pd

    metrics, values = results["metric"], results["value"].astype(float)
    merits = [values[:0]] + [
        merit(values[metrics == metric.name], metric.better) for metric in descriptions.values() if metric.better
    ]
    ranked = results.assign(merit=pd.concat(merits), row=range(len(results))).dropna(subset=["merit"])
    ranked = ranked.sort_values(["merit", "cell_id"], ascending=[False, True])
    ranked["best"] = ranked.groupby(["metric", *SETTING], dropna=False)["cell_id"].transform("first")
    # A pair stands in `tests` in one order. Pairs without a p value have too few questions.
    pairs = pd.concat([tests, tests.rename(columns={"cell_a": "cell_b", "cell_b": "cell_a"})])
    pairs = pairs.rename(columns={"cell_a": "best", "cell_b": "cell_id"}).dropna(subset=["p_adjusted"])
    tested = ranked.merge(pairs, on=["metric", "best", "cell_id"])
    best = ranked[ranked["cell_id"] == ranked["best"]].merge(tested[["metric", "best"]].drop_duplicates())
    standing = np.full(len(results), None, dtype=object)
    standing[tested["row"]] = np.where(tested["p_adjusted"] < SIGNIFICANCE, "worse", "tied")
    standing[best["row"]] = "best"
    return standing.tolist()


def merit(value: pd.Series, wins: str) -> pd.Series:
    """Return values for which larger is better."""
    return {"lower": -value, "higher": value, "near zero": -value.abs()}[wins]


def read_replicates(folder: Path) -> dict[str, Replicated]:
    """Return the values of a measuring job over all questions, with their bootstrap replicates, by metric.

    `folder` is the artifact. Raise ArtifactError if it is absent or cannot be read.
    """
    results = _read(folder / "results.parquet", ["metric", "question_level", "value", "questions"])
    resampled = _read(folder / "replicates.parquet", ["metric", "resampled", "value"])
    indices = resampled.groupby("metric", observed=True).indices
    values, names = resampled["value"].to_numpy(), resampled["resampled"].to_numpy()
    return {
        row.metric: Replicated(row.value, values[rows], row.questions, str(names[rows[0]]))
        for row in results[results["question_level"].isna()].itertuples()
        for rows in [indices.get(row.metric)]
        if rows is not None
    }


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        # The texts become numbers, because there are thousands of rows for each of a few texts.
        texts = ["metric", "resampled"]
        table = parquet.read_table(path, columns=columns, read_dictionary=texts, use_threads=False)
        rows: pd.DataFrame = table.to_pandas()
        return rows
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(
            f"The artifact {path} cannot be read: {error}. Run the grid again to rebuild it."
        ) from error
