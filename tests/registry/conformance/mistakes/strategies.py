"""Strategies of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors

import itertools

import numpy as np

from prmcal import Answered, PoolStrategy, SearchStrategy
from tests.registry.conformance.mistakes import mistake


class Sound(PoolStrategy):
    """Draws one trajectory."""

    samples = 1.0

    def answer(self, pool, allowance):
        return Answered(pool.correct.mean(axis=1), np.full(pool.questions, self.samples))


class NoMistake(Sound):
    pass


@mistake("the same pool gives", r"Write np\.clip\(\.\.\., 0, 16\)")
class MoreThanThePool(Sound):
    samples = 100.0


@mistake("the same pool gives", "Add 'scores' to its 'reads'")
class ReadsMoreThanItDeclares(Sound):
    def answer(self, pool, allowance):
        best = pool.scores.argmax(axis=1)
        return Answered(pool.correct[np.arange(pool.questions), best].astype(float), np.full(pool.questions, 16.0))


@mistake("the truth decides no budget", r"Choose thresholds in tune\(\)")
class StopsByTheTruth(Sound):
    def answer(self, pool, allowance):
        easy = pool.correct.mean(axis=1) > 0.5
        return Answered(pool.correct.mean(axis=1), np.where(easy, 1.0, 4.0))


@mistake("the curve begins", "Vary the argument that decides how many samples")
class ACurveOfOnePoint(Sound):
    def sweep(self, pool, allowance):
        return (self.answer(pool, allowance), self.answer(pool, allowance))


@mistake("reads are known", "may contain scores, .* Got reward")
class ReadsWhatIsNotThere(Sound):
    reads = ("reward",)


@mistake("the same pool gives", r"Got tuple. Write `return Answered\(accuracy, samples\)`")
class APair(Sound):
    def answer(self, pool, allowance):
        return pool.correct.mean(axis=1), 1.0


@mistake("the same pool gives the same answer", "Use a closed form")
class RandomChoice(Sound):
    calls = itertools.count()

    def answer(self, pool, allowance):
        chosen = np.random.default_rng(next(self.calls)).integers(pool.size, size=pool.questions)
        return Answered(pool.correct[np.arange(pool.questions), chosen].astype(float), np.ones(pool.questions))


@mistake("the same pool gives", r"read-only\. See line \d+ of strategies\.py")
class SortsThePool(Sound):
    def answer(self, pool, allowance):
        pool.correct.sort(axis=1)
        return super().answer(pool, allowance)


@mistake("accuracy does not exceed", "choice does not depend on 'correct'")
class KnowsTheAnswers(Sound):
    def answer(self, pool, allowance):
        return Answered(pool.correct.any(axis=1).astype(float), np.ones(pool.questions))


@mistake("the order of the pool", "Write the mean over all draws")
class FirstTrajectory(Sound):
    def answer(self, pool, allowance):
        return Answered(pool.correct[:, 0].astype(float), np.full(pool.questions, 16.0))


@mistake("a higher target", "rise with allowance.target")
class FewerSamplesForAHigherTarget(Sound):
    targeted = True

    def answer(self, pool, allowance):
        self.samples = 1 / allowance.target
        return super().answer(pool, allowance)


@mistake("the width is in its range", r"Got 4\.0. Write int\(np\.clip\(\.\.\., 1, 8\)\)")
class WidthAsAFloat(SearchStrategy):
    def keep(self, rewards, target):
        return self.width / 2


@mistake("the same rewards give the same width", "Keep no state")
class WidthFromEarlierCalls(SearchStrategy):
    calls = itertools.count()

    def keep(self, rewards, target):
        return 1 + next(self.calls) % 2
