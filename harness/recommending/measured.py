"""The strategies that can be recommended, and what each choice reaches on calibration and on test questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.budgets import against_fixed
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, skewed_interval
from prmcal.errors import InvalidArgumentsError, PrmcalError
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import GradedTrajectories, pool_of, scores_of_whole, tables_from
from prmcal.harness.jobs.strategy import check_answered
from prmcal.harness.recommending.folds import KnownPools
from prmcal.harness.recommending.types import Choice, Known, Tested
from prmcal.registry.contracts.pool import PER_CALIBRATOR, Pool
from prmcal.registry.contracts.strategy import SWEPT_TARGETS, Answered, PoolStrategy, Setting, Strategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import FixedBudget, best_of_each, curve_counts

if TYPE_CHECKING:
    import pandas as pd


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


@dataclass(frozen=True, eq=False)
class Measured:
    """A choice with its results for each calibration question.

    Attributes
    ----------
    choice : Choice
    candidate : Candidate
    accuracy, samples : ndarray of shape (questions,), float64
    tokens : ndarray of shape (questions,), float64, or None
        The expected generated tokens; None if they are not known.
    """

    choice: Choice
    candidate: Candidate
    accuracy: NDArray[np.float64]
    samples: NDArray[np.float64]
    tokens: NDArray[np.float64] | None

    @property
    def accuracy_error(self) -> float:
        """The standard error of the mean accuracy."""
        return float(self.accuracy.std(ddof=1) / np.sqrt(len(self.accuracy)))

    def cost(self, kind: str) -> float:
        """Return the mean cost of a question in ``samples`` or ``tokens``."""
        found = self.tokens if kind == "tokens" else self.samples
        return float("nan") if found is None else float(found.mean())


def measured(
    candidate: Candidate,
    place: Choice,
    pools: KnownPools,
    most: int,
    samples: int | None,
    tokens: NDArray[np.float64] | None,
) -> Iterator[Measured]:
    """Yield what a strategy reaches in all of its settings.

    What it is tuned with never contains the question that it is judged on.

    Parameters
    ----------
    candidate : Candidate
    place : Choice
        The LLM, the PRM, the calibrator and the level beta. The other fields are ignored.
    pools : KnownPools
    most, samples
        As for :func:`prmcal.harness.recommending.measured.settings_of`.
    tokens : ndarray of shape (questions,), float64, or None
        The mean generated tokens of a trajectory.
    """
    settings = settings_of(candidate.built, most, samples)
    if not settings:
        return
    reads = candidate.built.reads
    judged = pools.judged(reads, place.level)
    with plugin_guard("strategy", candidate.name, "answer"):
        if candidate.built.tuned:
            parts = [
                (
                    pools.folds == fold,
                    _tuned(
                        candidate,
                        pools.tuning(reads, place.level, fold),
                        judged.drawn(pools.folds == fold, slice(None)),
                        settings,
                    ),
                )
                for fold in range(int(pools.folds.max()) + 1)
            ]
        else:
            parts = [(np.ones(judged.questions, bool), _answers(candidate.build(), judged, settings))]
    for number, setting in enumerate(settings):
        accuracy, used = np.empty(judged.questions), np.empty(judged.questions)
        for chosen, answered in parts:
            accuracy[chosen] = np.minimum(answered[number].accuracy, 1.0)
            used[chosen] = answered[number].samples
        fixed = all(answered[number].fixed for _, answered in parts)
        target = None if setting.target is None else _short(setting.target)
        choice = replace(place, strategy=candidate.name, samples=setting.samples, target=target, fixed=fixed)
        in_tokens = None if tokens is None else used * tokens
        yield Measured(choice, candidate, accuracy, used, in_tokens)


def known_of(found: Measured) -> Known:
    """Return the means of a choice with their intervals."""
    means = _means(found.choice, found.accuracy, found.samples, found.tokens, found.choice.fixed)
    return Known(**means, accuracy_error=found.accuracy_error)


def _means(
    choice: Choice,
    accuracy: NDArray[np.float64],
    samples: NDArray[np.float64],
    tokens: NDArray[np.float64] | None,
    fixed: bool,
) -> dict[str, Any]:
    """Return the fields of :class:`Reached` from one value for each question."""
    rule = known_interval if fixed else partial(bounded_interval, upper=float(choice.samples))
    return {
        "accuracy": quantity(accuracy, bounded_interval),
        "samples": quantity(samples, rule),
        "tokens": None if tokens is None else quantity(tokens, skewed_interval),
    }


def quantity(values: NDArray[np.float64], rule: IntervalRule) -> Quantity:
    """Return the mean of one value for each question with its interval by a rule."""
    mean = float(values.mean())
    low, high = rule(values)
    return Quantity(mean, min(float(low), mean), max(float(high), mean))


def _short(target: float) -> float:
    """Return a target C with 1 - C rounded to about three digits, so that it can be typed."""
    return round(target, 2 - math.floor(math.log10(1 - target)))


def _tuned(candidate: Candidate, known: Pool, judged: Pool, settings: Sequence[Setting]) -> list[Answered]:
    """Return the answers to some questions after tuning on others."""
    strategy = candidate.build()
    if strategy.targeted:
        strategy.tune(known, Setting(settings[0].samples))
        return _answers(strategy, judged, settings)
    found = []
    for setting in settings:
        strategy = candidate.build()
        strategy.tune(known, setting)
        found += _answers(strategy, judged, [setting])
    return found


def _answers(strategy: PoolStrategy, pool: Pool, settings: Sequence[Setting]) -> list[Answered]:
    # All points of a curve at once take hardly longer than one.
    found: Sequence[Answered] = ()
    if strategy.targeted:
        found = strategy.sweep(pool, Setting(settings[0].samples))
    elif isinstance(strategy, FixedBudget) and len(settings) > 1:
        swept = {int(each.samples[0]): each for each in strategy.sweep(pool, settings[-1])}
        found = [swept.get(each.samples) or strategy.answer(pool, each) for each in settings]
    if len(found) != len(settings):
        found = [strategy.answer(pool, setting) for setting in settings]
    for answered, setting in zip(found, settings, strict=True):
        check_answered(answered, strategy, pool.questions, setting)
    return list(found)


@dataclass(frozen=True, eq=False)
class TestPool:
    """The trajectories of the test questions of one data set by one LLM.

    Attributes
    ----------
    dataset : str
    trajectories : GradedTrajectories
    scores : DataFrame
        The scores of the PRM of the choice, or of that which best-of-n is compared with.
    rewards : DataFrame or None
        The calibrated rewards, if the choice reads any.
    """

    __test__ = False  # It is no test of pytest.

    dataset: str
    trajectories: GradedTrajectories
    scores: pd.DataFrame
    rewards: pd.DataFrame | None = None


def tested(
    found: Measured, pool: TestPool, known: KnownPools, recommended: NDArray[np.float64] | None
) -> tuple[Tested, NDArray[np.float64]]:
    """Run a choice on test questions. A strategy that is tuned is tuned by the calibration questions of the run.

    Parameters
    ----------
    found : Measured
    pool : TestPool
    known : KnownPools
    recommended : ndarray of shape (questions,), float64, or None
        The probability of a right answer by the recommended choice; None if it is this choice.

    Returns
    -------
    Tested
        The means over the test questions, and the paired differences.
    ndarray of shape (questions,), float64
        The probability of a right answer to each question.
    """
    choice, candidate, trajectories = found.choice, found.candidate, pool.trajectories
    strategy, setting = candidate.build(), Setting(choice.samples, choice.target)

    def table(role: str, name: str) -> pd.DataFrame:
        given = pool.scores if role == "score" else pool.rewards
        assert given is not None
        return given

    with plugin_guard("strategy", candidate.name, "answer"):
        if strategy.tuned:
            strategy.tune(known.tuning(strategy.reads, choice.level), setting)
        judged = pool_of(trajectories, tables_from(table), strategy.reads, choice.level)
        answered = strategy.answer(judged, setting)
        check_answered(answered, strategy, judged.questions, setting)
    accuracy, samples = np.minimum(answered.accuracy, 1.0), answered.samples
    most = trajectories.correct.shape[1]
    tokens = samples * trajectories.tokens.mean(axis=1)
    to_fixed = None
    if candidate.reference.plugin != FIXED:
        fixed = best_of_each(scores_of_whole(pool.scores, most), trajectories.correct, most)
        values = against_fixed(accuracy[:, None], samples[:, None], fixed)[:, 0]
        to_fixed = quantity(values, skewed_interval)
    result = Tested(
        dataset=pool.dataset,
        questions=len(accuracy),
        **_means(choice, accuracy, samples, tokens if tokens.any() else None, answered.fixed),
        to_fixed=to_fixed,
        to_pass_at_1=difference(accuracy, trajectories.correct.mean(axis=1)),
        to_recommended=None if recommended is None else difference(accuracy, recommended),
    )
    return result, accuracy


def difference(first: NDArray[np.float64], second: NDArray[np.float64]) -> Quantity:
    """Return the mean of the differences between values of the same questions, with its interval."""
    return quantity(np.asarray(first - second, dtype=np.float64), skewed_interval)
