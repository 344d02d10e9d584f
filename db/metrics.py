"""The names that all of prmcal shares: leaderboards, metrics as readers see them, and identifiers of cells."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Leaderboard = Literal["calibration", "scaling", "league"]
Better = Literal["lower", "higher", "near zero"]

COORDINATES = ("dataset", "llm", "prm", "strategy", "target", "level", "calibrator")
"""The columns that identify a cell of a leaderboard. Rows are sorted in this order."""

SETTING = ["dataset", "llm", "prm"]
"""The columns that identify a setting. Cells of a leaderboard with the same setting compete."""

MAIN_METRICS: dict[Leaderboard, tuple[str, ...]] = {
    "calibration": ("brier_corrected", "adaptive_ce_corrected", "signed_error"),
    "scaling": ("accuracy", "budget_ratio", "pass_at_n"),
    "league": ("area_gain", "accuracy_at_4", "accuracy_at_16", "saving_95"),
}
"""The metrics of each leaderboard that are shown unless the reader chooses others."""

RANKING_METRIC = "brier_corrected"
"""The calibration metric that ranks calibrators."""

OTHER_METRICS = tuple(name for name in MAIN_METRICS["calibration"] if name != RANKING_METRIC)
"""The main calibration metrics that do not rank."""

COSTS = ("generated_tokens", "prefill_tokens", "prm_tokens")
"""Metrics that measure the cost of a strategy, besides its samples."""

UNTESTED = ("average_ce",)
"""Metrics whose paired test would see differences in 10% of cases without any: a bin with one question has the weight
of a full bin and no spread."""
NOT_COMPARED = (*COSTS, "order_error", *UNTESTED)
"""Metrics without comparisons of cells."""

LEAGUE_BUDGETS = (2, 4, 8, 16, 32, 64)
"""The mean numbers of samples at which the league shows the accuracy of strategies."""

LEAGUE_SHARE = 0.95
"""The share of the accuracy of best-of-N whose cost the league shows."""


def accuracy_at_name(budget: int) -> str:
    """Return the name of the metric of the league for the accuracy at a mean number of samples."""
    return f"accuracy_at_{budget}"


@dataclass(frozen=True)
class MetricColumn:
    """A column of a leaderboard."""

    name: str
    title: str
    """The name in the database, and the name for readers."""
    leaderboard: Leaderboard
    """The leaderboard that has the column."""
    better: Better | None
    """The values that win. None if no value is better by itself: a small budget, for example, may be too small."""
    description: str
    """The quantity that it measures, in one sentence."""

    @property
    def direction(self) -> str:
        """Return which values are better, such as "lower is better"; empty if none are."""
        return f"{'closer to 0' if self.better == 'near zero' else self.better} is better" if self.better else ""


_FILE = Path(__file__).with_name("metrics.csv")

with _FILE.open(encoding="utf-8", newline="") as _file:
    SCALING = tuple(
        MetricColumn(**{**row, "better": row["better"] or None})  # type: ignore[arg-type]
        for row in csv.DictReader(_file)
    )
"""The metrics of the scaling leaderboard and of the league. The metrics of the calibration leaderboard are plugins."""


class Metrics(dict[str, MetricColumn]):
    """The metrics of a run by name, in the order of columns."""

    def __init__(self, metrics: Iterable[MetricColumn]) -> None:
        super().__init__((metric.name, metric) for metric in metrics)

    def __missing__(self, name: str) -> MetricColumn:
        """Return a metric without a description in the run: none of its values is better."""
        return MetricColumn(name, name.replace("_", " ").capitalize(), "calibration", None, "")

    def title(self, name: str) -> str:
        """Return the title of a metric."""
        return self[name].title

    def of(self, leaderboard: Leaderboard) -> list[MetricColumn]:
        """Return the metrics of a leaderboard."""
        return [metric for metric in self.values() if metric.leaderboard == leaderboard]

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of columns, and then names without a description in alphabetical order."""
        distinct = set(names)
        return [name for name in self if name in distinct] + sorted(distinct - self.keys())


def with_terminal(name: str) -> str:
    """Return the name of a calibration metric that counts terminal prefixes, which contain their final answer."""
    return f"{name}_with_terminal"


def counting_terminal(metric: MetricColumn) -> MetricColumn:
    """Return the title of a calibration metric that counts terminal prefixes."""
    return replace(
        metric,
        name=with_terminal(metric.name),
        title=f"{metric.title}, with terminal",
        description=f"{metric.description} Prefixes that contain their final answer count too.",
    )


def cell_id(
    leaderboard: Leaderboard,
    llm: str,
    dataset: str,
    *,
    prm: str | None = None,
    calibrator: str | None = None,
    strategy: str | None = None,
    target: float | None = None,
    level: float | None = None,
) -> str:
    """Return the identifier of the cell with these coordinates. The identifier is the same in every run.

    For example ``calibration/weak/qwen/isotonic/nano-math`` or
    ``scaling/weak/qwen/isotonic/nano-math/best-of-n+ias/C=0.99/beta=0.1``. Coordinates that are None or empty are left
    out.
    """
    coordinates = [leaderboard, llm, prm, calibrator, dataset]
    if strategy:
        coordinates.append(strategy.replace(" + ", "+").replace(" ", "-").lower())
    if target is not None:
        coordinates.append(f"C={target:g}")
    if level is not None:
        coordinates.append(f"beta={level:g}")
    return "/".join(coordinate for coordinate in coordinates if coordinate)


def cell_number(number: int) -> str:
    """Return a short number as readers see it, such as ``#12``."""
    return f"#{number}"
