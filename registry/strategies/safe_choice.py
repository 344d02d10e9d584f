"""A choice among all rules that keeps a promise: not below one sample, and hardly below a fixed setting of its cost.

It is an application of Learn then Test (Angelopoulos et al., 2021, arXiv:2110.01052).
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from prmcal.arrays import Floats, Ints
from prmcal.errors import DataError
from prmcal.registry.contracts.plugin import FinitePositive, Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.strategies.best_of import BestOfN, FixedBudget, PassAt1, curve_counts
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.votes import MajorityVote, WeightedBestOfN

_RULES: dict[str, type[FixedBudget | LearnedStopping]] = {
    "best-of-n": BestOfN,
    "majority vote": MajorityVote,
    "weighted best-of-n": WeightedBestOfN,
    "learned stopping": LearnedStopping,
}
_STAKES: Floats = (np.arange(64) + 0.5) / 64


def log_evidence(values: ArrayLike, known: ArrayLike = ()) -> Floats:
    """Return the logarithm of the evidence that a mean is above 0, from independent values of at least -1.

    For a stake s in (0, 1), a gambler who bets on the mean multiplies his wealth by 1 + s x with each value x. The
    evidence is his wealth in the end, if he divides the first unit of it between 64 stakes in the proportions of what
    they would have won with the `known` values. If the mean is 0 or less, the expected wealth is at most 1, so it
    exceeds 1 / delta with probability delta at most (Markov). This holds for any number of values and any distribution
    (Waudby-Smith and Ramdas, 2024, arXiv:2010.09686), whatever is known.

    `values` and `known` have the shape (..., questions), each with its own questions, and the result (...).
    """
    won, before = (
        np.log1p(_STAKES[:, None] * np.asarray(each, dtype=np.float64)[..., None, :]).sum(axis=-1)
        for each in (values, known)
    )
    return np.asarray(logsumexp(won + before, axis=-1) - logsumexp(before, axis=-1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Settings of rules, the first of which draws one sample, and their results on two halves of the questions."""

    cost: Floats
    """Mean samples on the first half, of shape (settings,)."""
    rule: Ints
    """The number of the rule; -1 if it gives questions different numbers of samples. The settings of a rule stand
    together, and their cost ascends. Of shape (settings,)."""
    learned: Floats
    """Accuracy of each question of the first half, of shape (settings, questions)."""
    tested: Floats
    """Accuracy of each question of the second half, of shape (settings, questions)."""

    def safe(self, most: int, delta: float, loss: float) -> list[int]:
        """Return the settings that keep the promise, the cheapest first. One sample is always among them.

        The first half proposes the most accurate setting within each budget of 2, 4, ..., and `most` samples, orders
        the proposals by its evidence for them, and divides the stakes. The second half tests one after the other, and
        stops at the first whose evidence is below 1 / delta. So a wrong promise is made with probability `delta` at
        most: it needs that the first wrong one in this order passes its test.
        """
        budgets = [*(2**power for power in range(1, most.bit_length()) if 2**power < most), most]
        accuracy = np.round(self.learned.mean(axis=1), 9)
        proposed = {self._best(np.flatnonzero(self.cost <= budget), accuracy) for budget in budgets} - {0}
        learned = {each: self._gains(each, self.learned, loss) for each in proposed}
        passed = [0]
        for own in sorted(proposed, key=lambda each: (-log_evidence(learned[each]).min(), each)):
            if log_evidence(self._gains(own, self.tested, loss), learned[own]).min() < -np.log(delta):
                break
            passed.append(own)
        return sorted(passed, key=lambda each: (self.cost[each], each))

    def best(self, safe: list[int], budget: float) -> int:
        """Return the most accurate one of some settings within a budget, by the first half."""
        within = np.array([each for each in safe if self.cost[each] <= budget])
        return self._best(within, np.round(self.learned.mean(axis=1), 9))

    def _best(self, some: Ints, accuracy: Floats) -> int:
        """Return the most accurate of some settings; of equal ones the cheapest."""
        return int(some[np.lexsort((self.cost[some], -accuracy[some]))[0]])

    def _gains(self, own: int, accuracies: Floats, loss: float) -> Floats:
        """Return the values whose means must be above 0: against one sample, and against each fixed setting."""
        against = [accuracies[own] - each + loss for each in self.rivals(own, accuracies)]
        return np.stack([accuracies[own] - accuracies[0], *against])

    def rivals(self, own: int, accuracies: Floats) -> Iterator[Floats]:
        """Yield the accuracies of the fixed settings that cost no more than a setting.

        Between two numbers of samples, questions are divided at random between both. `accuracies` has the shape
        (settings, ...), and each result (...).
        """
        for rule in np.unique(self.rule[self.rule >= 0]):
            family = np.flatnonzero(self.rule == rule)
            cost = self.cost[family]
            within = int(np.count_nonzero(cost <= self.cost[own]))
            # With one sample, all rules are the same.
            yield from (accuracies[each] for each in family[1:within] if each != own)
            if within < len(family) and (left := self.cost[own] - cost[within - 1]) > 0:
                share = left / (cost[within] - cost[within - 1])
                yield (1 - share) * accuracies[family[within - 1]] + share * accuracies[family[within]]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule in one of its settings."""

    text: str
    """Its name with the argument that decides its budget."""
    strategy: PoolStrategy
    setting: Setting


@dataclass(eq=False)
class SafeChoice(PoolStrategy):
    """Use the rule that is surely not worse than one sample, nor than a fixed number of samples of its cost.

    The rules are best-of-n, both votes and ``learned stopping``, in all settings of their curves. Half of the
    calibration questions tune and propose, and the other half tests. With probability 1 - `delta`, the accuracy on new
    questions is not below that of one sample, nor more than `loss` below that of any fixed setting of equal cost. If no
    rule passes, it draws one sample, which keeps the promise by itself. The promise holds for any LLM and PRM if new
    questions are drawn as the calibration questions were, and for at most as many samples as these have trajectories.

    Small samples cannot promise much: a loss of x is excluded by about 2.3 / x questions of the second half at the
    least, if delta is .1.
    """

    citation = "Angelopoulos et al. (2021), arXiv:2110.01052"
    reads = ("scores",)
    tuned = True
    version = "2"

    delta: Share = 0.1
    """The largest probability that the promise does not hold. In (0, 1)."""
    loss: Share = 0.05
    """The largest loss of accuracy against a fixed setting of equal cost. In (0, 1)."""
    mean_samples: FinitePositive | None = None
    """The most samples of a question on average, which is measured on the calibration questions. The default is N."""

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Tune the rules on one half of the questions, and test them on the other."""
        self.most_ = min(setting.samples, pool.size)
        half = np.random.default_rng(0).permutation(pool.questions) % 2 == 0
        first, second = (pool.drawn(np.flatnonzero(each), slice(None)) for each in (half, ~half))
        self.rules_ = [Rule("one sample", PassAt1(), Setting(1))]
        known = [first.correct.mean(axis=1)], [second.correct.mean(axis=1)]
        cost, numbers = [1.0], [-1]
        # With fewer questions, nothing can be tested.
        for number, name in enumerate(_RULES if self.most_ > 1 and pool.questions > 1 else ()):
            built = _RULES[name]()
            try:
                built.tune(first, Setting(self.most_))
                swept = [built.sweep(each, Setting(self.most_)) for each in (first, second)]
            except DataError:  # It needs answers, and there are none.
                continue
            self.rules_ += _settings(name, built, self.most_)
            cost += [float(each.samples.mean()) for each in swept[0]]
            numbers += [number if each.fixed else -1 for each in swept[0]]
            for accuracies, answered in zip(known, swept, strict=True):
                accuracies += [each.accuracy for each in answered]
        self.candidates_ = Candidates(np.array(cost), np.array(numbers), *map(np.stack, known))
        self.safe_ = self.candidates_.safe(self.most_, self.delta, self.loss) if len(cost) > 1 else [0]

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Return the results of the chosen rule; see :meth:`prmcal.PoolStrategy.answer`."""
        rule = self.chosen(setting)
        return rule.strategy.answer(pool, rule.setting)

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Return the results of all rules that keep the promise; see :meth:`prmcal.PoolStrategy.sweep`."""
        most = self._budget(setting)
        safe = (self.rules_[each] for each in self.safe_ if self.candidates_.cost[each] <= most)
        return tuple(rule.strategy.answer(pool, rule.setting) for rule in safe)

    def needed(self, pool: Pool, drawn: Ints, setting: Setting) -> Ints:
        """Return what the chosen rule needs; see :meth:`prmcal.PoolStrategy.needed`."""
        rule = self.chosen(setting)
        return rule.strategy.needed(pool, drawn, rule.setting)

    def choose(self, pool: Pool, setting: Setting) -> int:
        """Return the answer of the chosen rule; see :meth:`prmcal.PoolStrategy.choose`."""
        rule = self.chosen(setting)
        return rule.strategy.choose(pool, rule.setting)

    def chosen(self, setting: Setting) -> Rule:
        """Return the rule that is used with a budget."""
        return self.rules_[self.candidates_.best(self.safe_, self._budget(setting))]

    def _budget(self, setting: Setting) -> float:
        return max(1.0, min(setting.samples, self.mean_samples or setting.samples))


def _settings(name: str, rule: FixedBudget | LearnedStopping, most: int) -> Iterator[Rule]:
    """Yield a rule in all settings of its curve."""
    if isinstance(rule, FixedBudget):
        yield from (Rule(f"{name} of {count}", rule, Setting(int(count))) for count in curve_counts(most))
        return
    for point in rule.curve_points(Setting(most)):
        own = copy(rule)
        own.price = abs(point)
        yield Rule(f"{name}, price = {own.price:.2g}", own, Setting(most))
