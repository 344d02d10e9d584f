"""What a league consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prmcal.db.overview.ranking import Rank
from prmcal.db.overview.types import Quantity

__all__ = ["Entry", "League", "LeagueRow", "levels_of"]


@dataclass(frozen=True, order=True)
class Entry:
    """What competes: a strategy, with the calibrator and the level beta that it reads, if any."""

    strategy: str
    calibrator: str = ""
    level: float | None = None

    @property
    def name(self) -> str:
        """The entry in words, such as "best-of-n + IAS with isotonic"."""
        return f"{self.strategy} with {self.calibrator}" if self.calibrator else self.strategy


def levels_of(entries: Iterable[Entry]) -> dict[Entry, str]:
    """Return the level beta of each entry in words; empty unless its strategy and calibrator have several."""
    known = set(entries)
    several = Counter(entry.name for entry in known)
    return {
        entry: f" (β = {entry.level:g})" if entry.level is not None and several[entry.name] > 1 else ""
        for entry in known
    }


@dataclass(frozen=True)
class LeagueRow:
    """One entry over all places where it was measured.

    Attributes
    ----------
    entry : Entry
    citation : str
        Where the strategy was published; empty if it was not.
    rank : Rank or None
        Its rank by the accuracy over budgets, and the mean of its ranks at single places. None for a reference, which
        needs the truth and does not compete, and for an entry without a rival.
    wins, ties, losses : int
        Numbers of paired tests of the accuracy over budgets against other entries at the same place that it wins, that
        find no significant difference, and that it loses. Tests against references do not count.
    gain : Quantity
        Accuracy over budgets minus that of best-of-n with a fixed n, averaged over places.
    accuracies : mapping of int to Quantity
        Accuracy at a mean number of samples, averaged over places.
    saving : Quantity
        Share of samples saved at 95% of the accuracy of best-of-N, averaged over places.
    order_error : float
        The largest standard error of an accuracy that comes from a limited number of random orders; 0 if all are exact.
    places : int
        Number of places where it was measured.
    """

    entry: Entry
    citation: str
    rank: Rank | None
    wins: int
    ties: int
    losses: int
    gain: Quantity
    accuracies: Mapping[int, Quantity]
    saving: Quantity
    order_error: float
    places: int


@dataclass(frozen=True)
class League:
    """The strategies of a grid at equal cost.

    Attributes
    ----------
    places : int
        Number of places with at least one measured entry.
    questions : mapping of str to int
        Number of test questions of each data set.
    budgets : tuple of int
        N, the largest number of samples at a place: each once, in increasing order.
    counts : mapping of str to int
        Number of cells by status: done, failed, pending.
    rows : tuple of LeagueRow
        The lowest mean rank first, then the references.
    """

    places: int
    questions: Mapping[str, int]
    budgets: tuple[int, ...]
    counts: Mapping[str, int]
    rows: tuple[LeagueRow, ...]

    @property
    def ranked(self) -> tuple[LeagueRow, ...]:
        """The rows that compete, the best first."""
        return tuple(row for row in self.rows if row.rank is not None)
