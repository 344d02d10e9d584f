"""Strategies of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

import itertools

import numpy as np

from prmcal import Answered, PoolStrategy, SearchStrategy, strategy


class Sound(PoolStrategy):
    """Draws one trajectory."""

    samples = 1.0

    def answer(self, pool, setting):
        return Answered(pool.correct.mean(axis=1), np.full(pool.questions, self.samples))


@strategy("no mistake")
class NoMistake(Sound):
    pass


@strategy("more than the pool")
class MoreThanThePool(Sound):
    samples = 100.0


@strategy("reads more than it declares")
class ReadsMoreThanItDeclares(Sound):
    def answer(self, pool, setting):
        best = pool.scores.argmax(axis=1)
        return Answered(
            pool.correct[np.arange(pool.questions), best].astype(float), np.full(pool.questions, 16.0)
        )


@strategy("stops by the truth")
class StopsByTheTruth(Sound):
    def answer(self, pool, setting):
        easy = pool.correct.mean(axis=1) > 0.5
        return Answered(pool.correct.mean(axis=1), np.where(easy, 1.0, 4.0))


@strategy("a curve of one point")
class ACurveOfOnePoint(Sound):
    def sweep(self, pool, setting):
        return (self.answer(pool, setting), self.answer(pool, setting))


@strategy("reads as a text")
class ReadsAsAText(Sound):
    reads = "scores"


@strategy("reads what is not there")
class ReadsWhatIsNotThere(Sound):
    reads = ("reward",)


@strategy("a pair")
class APair(Sound):
    def answer(self, pool, setting):
        return pool.correct.mean(axis=1), 1.0


@strategy("one mean")
class OneMean(Sound):
    def answer(self, pool, setting):
        return Answered(pool.correct.mean(), 1.0)


@strategy("random choice")
class RandomChoice(Sound):
    calls = itertools.count()

    def answer(self, pool, setting):
        chosen = np.random.default_rng(next(self.calls)).integers(pool.size, size=pool.questions)
        return Answered(
            pool.correct[np.arange(pool.questions), chosen].astype(float), np.ones(pool.questions)
        )


@strategy("sorts the pool")
class SortsThePool(Sound):
    def answer(self, pool, setting):
        pool.correct.sort(axis=1)
        return super().answer(pool, setting)


@strategy("target without targeted")
class TargetWithoutTargeted(Sound):
    def answer(self, pool, setting):
        if setting.target > 0.5:
            return super().answer(pool, setting)
        return super().answer(pool, setting)


@strategy("knows the answers")
class KnowsTheAnswers(Sound):
    def answer(self, pool, setting):
        return Answered(pool.correct.any(axis=1).astype(float), np.ones(pool.questions))


@strategy("first trajectory")
class FirstTrajectory(Sound):
    def answer(self, pool, setting):
        return Answered(pool.correct[:, 0].astype(float), np.full(pool.questions, 16.0))


@strategy("fewer samples for a higher target")
class FewerSamplesForAHigherTarget(Sound):
    targeted = True

    def answer(self, pool, setting):
        self.samples = 1 / setting.target
        return super().answer(pool, setting)


@strategy("width as a float")
class WidthAsAFloat(SearchStrategy):
    def keep(self, rewards, target):
        return self.width / 2


@strategy("width above the largest")
class WidthAboveTheLargest(SearchStrategy):
    def expand(self, rewards, target):
        return 2 * self.expansions


@strategy("width from earlier calls")
class WidthFromEarlierCalls(SearchStrategy):
    calls = itertools.count()

    def keep(self, rewards, target):
        return 1 + next(self.calls) % 2
