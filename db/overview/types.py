"""The overview and the league as data."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from prmcal.db.metrics import Metrics
from prmcal.db.statistics.intervals import Estimate
from prmcal.db.tables import HealthCheck

if TYPE_CHECKING:
    import pandas as pd


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under the names of their columns in files: an :class:`Estimate` has three."""
    columns: dict[str, Any] = {}
    for name, value in values.items():
        columns |= value.columns(name) if isinstance(value, Estimate) else {name: value}
    return columns


@dataclass(frozen=True)
class Rank:
    """The rank of a competitor over all settings where it is ranked."""

    settings: int
    """Number of these settings."""
    lowest: int
    """Number of settings where its value is the lowest."""
    mean_rank: Estimate
    """Mean over settings of its rank, where 1 is the lowest value."""
    rank: int
    """Its position in the ranking, from 1."""
    rank_low: int
    rank_high: int
    """The smallest and the largest rank that are plausible, with 95% confidence."""
    bracket: int
    """Number of its bracket, from 1. Within a bracket, no competitor is clearly ahead of another."""


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of paired tests of one competitor against others at the same setting."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    """Numbers of tests that it wins, ties (no significant difference) and loses."""

    def __str__(self) -> str:
        return f"{self.wins}-{self.ties}-{self.losses}"


@dataclass(frozen=True)
class Gain:
    """The results of best-of-n + IAS with the rewards of one calibrator at its lowest level, averaged over settings."""

    accuracy: Estimate
    samples: Estimate
    """Share of questions answered correctly, and mean samples of a question."""
    share: Estimate | None
    """Samples divided by N of the setting, the samples of best-of-N; None if a setting has no best-of-n."""
    to_best_of_n: Estimate | None
    """Accuracy minus the accuracy of best-of-N, paired; None if the grid has no best-of-n."""
    to_equal_cost: Estimate | None
    """Accuracy minus the accuracy of best-of-n with the same mean samples for every question, paired; None if
    unknown."""


@dataclass(frozen=True)
class Standing(Rank):
    """One calibrator over all settings where it was measured, ranked by its noise-corrected Brier score."""

    calibrator: str
    """The name in the grid."""
    citation: str
    """The publication; empty if unpublished."""
    outcomes: Outcomes
    """Wins, ties and losses of the paired tests against other calibrators."""
    brier: Estimate
    """Noise-corrected Brier score, averaged over settings."""
    brier_reduction: Estimate | None
    """The share by which it lowers the baseline's score, 1 - brier / baseline; None for the baseline itself."""
    errors: Mapping[str, Estimate]
    """The other main metrics of the calibration leaderboard, averaged over settings."""
    gain: Gain | None
    """The results of IAS with its rewards; None if the grid has no such cell."""
    fit_seconds: float | None
    """Mean seconds of a fit; None if it was not fitted in this run."""


@dataclass(frozen=True, order=True)
class Entry:
    """A competitor: a strategy, with the calibrator and the level beta that it reads, if any."""

    strategy: str
    calibrator: str = ""
    level: float | None = None

    @classmethod
    def of(cls, strategy: str, calibrator: Any, level: Any) -> Self:
        """Return the entry of a row, whose calibrator and level may be missing."""
        level = None if level is None or level != level else float(level)
        return cls(strategy, calibrator if isinstance(calibrator, str) else "", level)

    @property
    def name(self) -> str:
        """The entry in words, such as "best-of-n + IAS with isotonic"."""
        return f"{self.strategy} with {self.calibrator}" if self.calibrator else self.strategy


@dataclass(frozen=True)
class Saving:
    """The saving of the league's best rule at equal accuracy; see :func:`prmcal.db.overview.ranking.saving`."""

    entry: Entry
    """The rule that all questions together would choose."""
    share: Estimate
    """The share of the samples of the best fixed n; below 0 if the rule needs more."""


@dataclass(frozen=True, eq=False)
class Extent:
    """The extent of a ranking."""

    settings: int
    """Number of settings where something was measured."""
    questions: Mapping[str, int]
    """Number of test questions of each data set."""
    counts: Mapping[str, int]
    """Number of cells by status: done, failed, pending."""


@dataclass(frozen=True, eq=False)
class Overview(Extent):
    """The ranking of the calibrators of a grid, and the cells of the leaderboards behind it."""

    running: bool
    """True while the run is in progress. All numbers are then provisional."""
    baseline: str | None
    """The calibrator that leaves rewards unchanged; None if the grid has none."""
    before: Mapping[str, Estimate]
    """The errors of the baseline at the settings of the first calibrator of the ranking; see :class:`Standing`."""
    repair: Estimate | None
    """The share of the baseline's Brier score that calibration removes, with calibrators that other questions choose.
    See :func:`prmcal.db.overview.ranking.reduction_of_chosen`."""
    ranking: tuple[Standing, ...]
    """The calibrators, the lowest mean rank first."""
    cells: "pd.DataFrame"
    """The calibration cells in the order of the grid: cell_id, dataset, llm, prm, calibrator, status, number, value,
    low and high (noise-corrected Brier score), standing ("best", "tied", "worse" or null), and ratio (value divided by
    that of the baseline at the same setting)."""
    metrics: Metrics
    """The metrics of the run."""
    health: tuple[HealthCheck, ...] = ()
    """The warnings about the data that a reader needs before the numbers, the most serious first."""
    saving: Saving | None = None
    """The saving of the best rule; None if the grid has no league with a fixed rule and a rule that stops early."""


def levels_of(entries: Iterable[Entry]) -> dict[Entry, str]:
    """Return the level beta of each entry in words; empty unless its strategy and calibrator have several."""
    distinct = set(entries)
    several = Counter(entry.name for entry in distinct)
    return {
        entry: f" (β = {entry.level:g})" if entry.level is not None and several[entry.name] > 1 else ""
        for entry in distinct
    }


@dataclass(frozen=True)
class LeagueRow:
    """One entry over all settings where it was measured."""

    entry: Entry
    citation: str
    """The publication of the strategy; empty if it was not."""
    rank: Rank | None
    """Its rank by the accuracy over budgets, and the mean of its ranks at single settings. None for a reference, which
    needs the truth and does not compete, and for an entry without rivals."""
    outcomes: Outcomes
    """Wins, ties and losses of the paired tests against other entries over budgets. References do not count."""
    gain: Estimate
    """Accuracy over budgets minus the accuracy of best-of-n with a fixed n, averaged over settings."""
    accuracies: Mapping[int, Estimate]
    """Accuracy at a mean number of samples, averaged over settings."""
    over_fixed: Estimate | None
    """Accuracy over budgets of 2, 4, ... samples minus the best fixed n of equal cost, averaged over settings. This n
    is chosen on the other half of the questions. None without a fixed rule."""
    saving: Estimate
    """Share of samples saved at 95% of the accuracy of best-of-N, averaged over settings."""
    order_error: float
    """The largest standard error of an accuracy that comes from a limited number of random orders; 0 if all are
    exact."""
    settings: int
    """Number of settings where it was measured."""


@dataclass(frozen=True, eq=False)
class League(Extent):
    """The strategies of a grid at equal cost."""

    rows: tuple[LeagueRow, ...]
    """The lowest mean rank first, then the references."""
    health: tuple[HealthCheck, ...] = ()
    """See :class:`Overview`."""

    @property
    def ranked(self) -> tuple[LeagueRow, ...]:
        """The rows that compete, the best first."""
        return tuple(row for row in self.rows if row.rank is not None)
