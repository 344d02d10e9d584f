"""The strategies that can be recommended, and the settings in which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prmcal.errors import InvalidArgumentsError, PrmcalError
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.registry.contracts.pool import PER_CALIBRATOR
from prmcal.registry.contracts.strategy import SWEPT_TARGETS, PoolStrategy, Setting, Strategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.fixed import FixedBudget, curve_counts

__all__ = ["FIXED", "Candidate", "candidates", "settings_of"]

FIXED = "best-of-n"
"""The registered name of the plain strategy that all others are compared with."""

_READS_REWARDS = PER_CALIBRATOR.union({"rewards"})
# It divides the samples of a whole set of questions, so it has no answer for one question alone.
_DIVIDES_A_BUDGET = "marginal gains"


@dataclass(frozen=True)
class Candidate:
    """A strategy that can be recommended.

    Attributes
    ----------
    reference : PluginReference
    built : PoolStrategy
    of_grid : bool
        Whether it is in the grid. It is then compared where the grid runs it.
    """

    reference: PluginReference
    built: PoolStrategy
    of_grid: bool

    @property
    def name(self) -> str:
        """Its name in the grid, or its registered name."""
        return self.reference.name

    def build(self) -> PoolStrategy:
        """Return a new strategy, which is not tuned."""
        built: Strategy = self.reference.build(strategies)
        assert isinstance(built, PoolStrategy)
        return built


def candidates(grid: Sequence[PluginReference], wanted: Sequence[str]) -> list[Candidate]:
    """Return the strategies that can be recommended: best-of-n first, then those of the grid, then all others.

    They are the strategies of the league, which always answer and whose cost does not depend on a second LLM. Searches,
    which generate step by step, have no results on the calibration questions. A strategy that reads calibrated rewards
    and is not in the grid is there only if it is wanted: with every calibrator it would be many choices, and the best
    of many looks better than it is.

    Parameters
    ----------
    grid : sequence of PluginReference
        The strategies of the grid.
    wanted : sequence of str
        Names to keep; empty for all.

    Raises
    ------
    PrmcalError
        If a name cannot be recommended, or does not exist.
    """
    known = {each.name: each for each in grid}
    for name in strategies.names():
        known.setdefault(name, PluginReference(name, name, {}))
    for name in wanted:
        if name not in known:
            strategies.get(name)  # It raises, and names similar ones.
    of_grid = {each.name for each in grid}
    found = []
    for name in [name for name in known if not wanted or name in wanted]:
        try:
            built = known[name].build(strategies)
        except InvalidArgumentsError:  # It needs arguments, which only a grid can give.
            if wanted:
                raise
            continue
        if _is_usable(known[name], built):
            assert isinstance(built, PoolStrategy)
            if wanted or name in of_grid or not _READS_REWARDS.intersection(built.reads):
                found.append(Candidate(known[name], built, name in of_grid))
        elif wanted:
            raise PrmcalError(
                f"--strategy: '{name}' cannot be recommended. It must draw whole samples of one LLM for one question, "
                "always answer, and not need the truth."
            )
    return sorted(found, key=lambda each: each.reference.plugin != FIXED)


def settings_of(strategy: PoolStrategy, most: int, samples: int | None) -> list[Setting]:
    """Return the settings in which a strategy is compared.

    Parameters
    ----------
    strategy : PoolStrategy
    most : int
        The largest N.
    samples : int or None
        A wanted number of samples, which is one of the settings of a strategy without a target if it is at most `most`.
    """
    if strategy.targeted:
        return [Setting(most, target) for target in SWEPT_TARGETS] if most > 1 else []
    if isinstance(strategy, FixedBudget):
        counts = set(map(int, curve_counts(most)))
    else:
        counts = {2**power for power in range(most.bit_length())} | {most}
    if samples is not None and samples <= most:
        counts.add(samples)
    return [Setting(count) for count in sorted(counts)]


def _is_usable(reference: PluginReference, built: Strategy) -> bool:
    return (
        isinstance(built, PoolStrategy)
        and built.in_league
        and not built.reference
        and "success" not in built.reads
        and reference.plugin != _DIVIDES_A_BUDGET
    )
