"""Metrics for tests: what readers see of the built-in ones, and the statistics of any rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from prmcal.db.metrics import Metrics
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic
from prmcal.db.statistics.paired import PairedDifference, Replicated, replicated_difference
from prmcal.db.tables import DescribedMetric
from prmcal.harness.metrics.measured import statistic_of
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.registry.contracts.metric import Metric, PrefixRows
from prmcal.registry.plugins import metrics

DESCRIBED = Metrics(built_in_metrics())
BOOTSTRAP = Bootstrap()
# Their values are those of brute force or of other packages; the others have tests of their own.
_PUBLISHED = ("brier", "brier_corrected", "positive_brier", "signed_error")
_BINNED = ("ece", "adaptive_ce", "adaptive_ce_corrected", "average_ce")


def described_rows() -> list[DescribedMetric]:
    """What a run writes of the built-in metrics."""
    return [DescribedMetric(**asdict(each), position=place) for place, each in enumerate(DESCRIBED.values())]


def statistic(metric: Metric | str, rows: PrefixRows, bootstrap: Bootstrap = BOOTSTRAP, **arguments: Any) -> Any:
    """The statistic of a metric that is defined for the rows."""
    built = metrics.create(metric, **arguments) if isinstance(metric, str) else metric
    found = statistic_of(built, rows, bootstrap)
    assert found is not None
    return found


def value(metric: Metric | str, rows: PrefixRows, **arguments: Any) -> float:
    """The value of a metric that is defined for the rows."""
    return float(statistic(metric, rows, **arguments).value())


def published_metrics(rows: PrefixRows, bins: int = 10, bootstrap: Bootstrap = BOOTSTRAP) -> dict[str, Statistic]:
    """The Brier scores, the signed error and the calibration errors over bins, by name, where they are defined."""
    built = {name: metrics.create(name) for name in _PUBLISHED}
    built |= {name: metrics.create(name, bins=bins) for name in _BINNED}
    found = {name: statistic_of(metric, rows, bootstrap) for name, metric in built.items()}
    return {name: each for name, each in found.items() if each is not None}


def row_mean(quantity: ArrayLike, question: ArrayLike) -> Ratio:
    """The mean of a quantity over rows, each of a question."""
    values, index = np.asarray(quantity, dtype=np.float64), np.asarray(question)
    counts = np.bincount(index)
    mean = Ratio(np.bincount(index, weights=values), counts, np.arange(len(counts)))
    mean.rows = len(values)
    return mean


def paired_difference(first: Statistic, second: Statistic, bootstrap: Bootstrap) -> PairedDifference:
    """The difference of two statistics of the same questions, with the same resamples for both."""
    questions = len(first.question_ids)
    weights = bootstrap.weights(questions) if questions > 1 else np.empty((0, questions))
    cells = (Replicated(each.value(), each.values(weights), questions) for each in (first, second))
    return replicated_difference(*cells)
