"""The calibration metrics of a grid, and what readers see of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from prmcal.db.metrics import SCALING, Metric, counting_terminal
from prmcal.errors import GridError
from prmcal.harness.planning.grid_file.grid import GridSpec, PluginSpec
from prmcal.registry.contracts import metric as contract
from prmcal.registry.plugins import metrics

__all__ = ["built_in_metrics", "described_metrics", "metric_specs"]

_BUILT_IN = (
    *("brier", "brier_corrected", "positive_brier"),
    *("ece", "ece_corrected", "adaptive_ce", "adaptive_ce_corrected", "average_ce", "average_ce_corrected"),
    *("signed_error", "coverage"),
    *("log_loss", "miscalibration", "discrimination", "uncertainty", "auroc_within"),
    *("squared_ce", "smooth_ce", "smooth_ce_null", "law_score"),
)
"""The metrics that every grid measures, in the order of columns."""
_LEVELS = (0.1, 0.5, 0.9)


def metric_specs(grid: GridSpec) -> list[PluginSpec]:
    """Return the metrics of a grid, in the order of columns: those of every grid, and those that it lists."""
    return [
        *(PluginSpec(name=name, plugin=name, arguments=_arguments(name, grid)) for name in _BUILT_IN),
        *grid.measurement.metrics,
    ]


def _arguments(name: str, grid: GridSpec) -> dict[str, Any]:
    """Return the number of bins of the grid for a built-in metric with bins."""
    has_bins = "bins" in inspect.signature(metrics.get(name)).parameters
    return {"bins": grid.measurement.bins} if has_bins else {}


def described_metrics(
    named: Sequence[tuple[str, contract.Metric]], levels: Iterable[Sequence[float]], terminal: bool
) -> tuple[Metric, ...]:
    """Return what readers see of the metrics of a grid, in the order of columns.

    Parameters
    ----------
    named : sequence of (str, Metric)
        The names of the calibration metrics in the grid, and the metrics.
    levels : iterable of sequence of float
        The levels beta that each calibrator predicts.
    terminal : bool
        Whether terminal prefixes count. If not, every metric has a column with them too.

    Raises
    ------
    GridError
        If two metrics have columns of the same name.
    """
    predicted = list(levels)
    found: dict[str, Metric] = {}
    for name, metric in named:
        used = {column: level for each in predicted for column, level in metric.columns(name, each).items()}
        for column, level in sorted(used.items(), key=lambda pair: pair[1] or 0.0):
            if column in found:
                raise GridError(
                    f"Two metrics have the column '{column}'. Every grid measures: {', '.join(_BUILT_IN)}. Give the "
                    "entry in 'measurement.metrics' another name."
                )
            found[column] = Metric(
                column, metric.titled(name, level), "calibration", metric.better, metric.described(level)
            )
    own = tuple(found.values())
    return (*own, *(() if terminal else map(counting_terminal, own)), *SCALING)


def built_in_metrics() -> tuple[Metric, ...]:
    """Return what readers see of the metrics that every grid measures."""
    return described_metrics([(name, metrics.create(name)) for name in _BUILT_IN], [_LEVELS], terminal=False)
