"""What each choice reaches on the calibration questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, skewed_interval
from prmcal.harness.jobs.context import plugin_guard
from prmcal.harness.jobs.measurement.strategy import check_answered
from prmcal.harness.recommending.candidates import Candidate, settings_of
from prmcal.harness.recommending.folds import KnownPools
from prmcal.harness.recommending.types import Choice, Known
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.strategies.fixed import FixedBudget

__all__ = ["Measured", "known_of", "measured", "quantity"]


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
        As for :func:`prmcal.harness.recommending.candidates.settings_of`.
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
    questions = len(found.accuracy)
    return Known(
        accuracy=quantity(found.accuracy, bounded_interval),
        samples=quantity(
            found.samples,
            known_interval
            if found.choice.fixed
            else partial(bounded_interval, upper=float(found.choice.samples)),
        ),
        tokens=None if found.tokens is None else quantity(found.tokens, skewed_interval),
        accuracy_error=float(found.accuracy.std(ddof=1) / np.sqrt(questions)),
    )


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
