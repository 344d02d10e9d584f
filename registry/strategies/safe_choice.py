"""A choice among all rules that keeps a promise: not below one sample, and hardly below a fixed n of its cost.

It is an application of Learn then Test (Angelopoulos et al., 2021, arXiv:2110.01052).
"""

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from prmcal.arrays import Floats, Ints
from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.plugin import Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy
from prmcal.registry.strategies.best_of import BestOfN, FixedBudget, PassAt1, curve_counts
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.votes import MajorityVote, WeightedBestOfN

_RULES: dict[str, type[FixedBudget | LearnedStopping]] = {
    "best-of-n": BestOfN,
    "majority vote": MajorityVote,
    "weighted best-of-n": WeightedBestOfN,
    "learned stopping": LearnedStopping,
}
_RESAMPLES, _ROUNDING = 1000, 1e-9
_UNSEEN = 0.5
"""The weight of a question that loses everything: a sample may lack such questions by chance."""
_LEAST_LOSS = 0.002
"""A difference of accuracies that counts as none."""


def studentised(values: Floats) -> Floats:
    """Return Student's t of means that are tested to be above 0, of values of at least -1: (..., questions) to (...).

    Half a question with the value -1 is added, since a rare loss may not have been drawn.
    """
    n = values.shape[-1] + _UNSEEN
    mean: Floats = np.asarray((values.sum(axis=-1) - _UNSEEN) / n, dtype=np.float64)
    squares = ((values - mean[..., None]) ** 2).sum(axis=-1) + _UNSEEN * (1 + mean) ** 2
    return np.asarray(mean / np.sqrt(squares / (n - 1) / n), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Variants of rules, and their results on calibration questions. The first variant draws one sample."""

    cost: Floats
    """Mean samples, of shape (variants,)."""
    rule: Ints
    """The number of the rule; -1 if it gives questions different numbers of samples. The variants of a rule follow each
    other, by ascending cost. Of shape (variants,)."""
    accuracy: Floats
    """Accuracy of each question, of shape (variants, questions). A rule that learns was fitted to other questions."""

    @cached_property
    def gains(self) -> Floats:
        """The accuracy of each question minus the accuracy of one sample, of shape (variants, questions)."""
        return np.asarray(self.accuracy - self.accuracy[0], dtype=np.float64)

    @cached_property
    def evidence(self) -> Floats:
        """Student's t of the mean gain of each variant, of shape (variants,)."""
        return studentised(self.gains)

    @cached_property
    def luck(self) -> Floats:
        """The largest t of all variants in each resample, sorted, of shape (resamples,). No variant has a gain there.

        The gains are centred, and each question is weighted with a normal random number (Chernozhukov, Chetverikov and
        Kato, 2013, Annals of Statistics 41). So many variants that win and lose together count as few variants.
        """
        centred = self.gains - self.gains.mean(axis=1, keepdims=True)
        spread = centred.std(axis=1)
        # What draws one sample has no spread but that of rounding.
        varied = spread > _ROUNDING
        centred = centred[varied] / spread[varied, None]
        n = self.gains.shape[1]
        weights = np.random.default_rng(0).standard_normal((n, _RESAMPLES)) / np.sqrt(n)
        # Without a spread there is one variant, whose luck is normal.
        largest = np.sort((centred @ weights).max(axis=0) if len(centred) else weights.sum(axis=0))
        return np.asarray(stdtrit(max(n - 1, 1), ndtr(largest)), dtype=np.float64)

    def p_value(self, variant: int) -> float:
        """Return the probability that luck gives the best of all variants at least the evidence of a variant."""
        above = len(self.luck) - int(np.searchsorted(self.luck, self.evidence[variant]))
        return (above + 1) / (len(self.luck) + 1)

    def interval(self, variant: int) -> tuple[float, float]:
        """Return the 95% interval of the gain of a variant. It holds even if the variant was chosen for it."""
        n, gains = self.gains.shape[1], self.gains[variant]
        half = float(np.quantile(self.luck, 0.975)) * float(gains.std(ddof=1)) / math.sqrt(n)
        return max(-1.0, float(gains.mean()) - half), min(1.0, float(gains.mean()) + half)

    def safe(self, delta: float, loss: float) -> list[int]:
        """Return the variants that keep the promise, the cheapest first. The variants always include one sample.

        A variant passes if two t values exceed a bound: against one sample, and against each fixed n of equal cost with
        the allowed loss. If no variant gained, the best of all would exceed this bound with probability `delta`.
        """
        critical = float(np.quantile(self.luck, 1 - delta))
        passed = [0]
        for variant in np.flatnonzero(self.evidence > critical):
            against = [self.accuracy[variant] - rival + loss for rival in self.rivals(variant, self.accuracy)]
            if variant and (not against or studentised(np.stack(against)).min() > critical):
                passed.append(int(variant))
        return sorted(passed, key=lambda variant: (self.cost[variant], variant))

    def best(self, safe: list[int], budget: float) -> int:
        """Return the cheapest variant within a budget that is hardly less accurate than the best of these variants.

        Hardly is half a standard error of the difference, or a fifth of a point.
        """
        within = np.array([variant for variant in safe if self.cost[variant] <= budget])
        accuracy = self.accuracy[within]
        losses = accuracy[accuracy.mean(axis=1).argmax()] - accuracy
        allowed = losses.std(axis=1) / (2 * np.sqrt(losses.shape[1]))
        near = within[losses.mean(axis=1) <= np.maximum(allowed, _LEAST_LOSS)]
        return int(near[self.cost[near].argmin()])

    def likely(self) -> int:
        """Return the variant whose gain has most evidence."""
        return int(self.evidence.argmax())

    def rivals(self, variant: int, accuracies: Floats) -> Iterator[Floats]:
        """Yield the accuracies of the fixed variants that cost no more than a variant.

        Between two numbers of samples, questions are divided at random between both. `accuracies` has the shape
        (variants, ...), and each result (...).
        """
        for rule in np.unique(self.rule[self.rule >= 0]):
            family = np.flatnonzero(self.rule == rule)
            cost = self.cost[family]
            within = int(np.count_nonzero(cost <= self.cost[variant]))
            # With one sample, all rules are the same.
            yield from (accuracies[member] for member in family[1:within] if member != variant)
            if within < len(family) and (surplus := self.cost[variant] - cost[within - 1]) > 0:
                share = surplus / (cost[within] - cost[within - 1])
                yield (1 - share) * accuracies[family[within - 1]] + share * accuracies[family[within]]


@dataclass(frozen=True, eq=False)
class Rule:
    """A variant of a rule: a rule with its parameters."""

    text: str
    """The name of the rule, with the argument that decides its budget."""
    strategy: PoolStrategy
    allowance: Allowance


@dataclass(eq=False)
class SafeChoice(PoolStrategy):
    """Use a rule that is clearly no worse than one sample, and no worse than a fixed n of the same cost.

    The rules are best-of-n, both votes and ``learned stopping``, in all variants of their curves. All calibration
    questions test the rules. What learns is tested on the half of the questions that it has not learned from. With
    probability 1 - `delta`, the accuracy on new questions is not below one sample, nor more than `loss` below any fixed
    n of equal cost. If no rule passes, one sample is drawn, which keeps the promise. The promise holds for any LLM and
    PRM if new questions come from the same source as the calibration questions. The promise does not hold for more
    samples than the calibration questions have trajectories. The proof is for many questions only, by the central limit
    theorem. How often it is broken with 50 to 500 questions was measured: see ``python -m
    benchmarks.simulations.safe_choice``. Of the passing variants that are hardly less accurate than the best, the
    cheapest is used.
    """

    citation = "Angelopoulos et al. (2021), arXiv:2110.01052"
    reads = ("scores",)
    tuned = True
    version = "4"

    delta: Share = 0.1
    """The largest probability that the promise does not hold. In (0, 1)."""
    loss: Share = 0.05
    """The largest loss of accuracy against a fixed n of equal cost. In (0, 1)."""

    def tune(self, pool: Pool, allowance: Allowance) -> None:
        """Test all rules on all questions, and tune the rules that learn."""
        self.most_ = min(allowance.samples, pool.size)
        half = np.random.default_rng(0).permutation(pool.questions) % 2
        self.rules_ = [Rule("one sample", PassAt1(), Allowance(1))]
        accuracy, cost, numbers = [pool.correct.mean(axis=1)], [1.0], [-1]
        # With fewer questions, nothing can be tested.
        for number, name in enumerate(_RULES if self.most_ > 1 and pool.questions > 3 else ()):
            built = _RULES[name]()
            try:
                built.tune(pool, Allowance(self.most_))
                swept = built.sweep(pool, Allowance(self.most_))
                rows, samples = [answered.accuracy for answered in swept], [answered.samples for answered in swept]
                if isinstance(built, LearnedStopping):
                    rows, samples = _crossed(built, pool, half, self.most_)
            except (DataError, PluginFailedError):  # It needs answers or scores, and there are none.
                continue
            self.rules_ += _variants(name, built, self.most_)
            cost += [float(counts.mean()) for counts in samples]
            numbers += [number if answered.fixed else -1 for answered in swept]
            accuracy += rows
        self.candidates_ = Candidates(np.array(cost), np.array(numbers), np.stack(accuracy))
        self.safe_ = self.candidates_.safe(self.delta, self.loss) if len(cost) > 1 else [0]

    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Return the results of the chosen rule; see :meth:`prmcal.PoolStrategy.answer`."""
        rule = self.chosen_rule(allowance)
        return rule.strategy.answer(pool, rule.allowance)

    def sweep(self, pool: Pool, allowance: Allowance) -> tuple[Answered, ...]:
        """Return the results of all rules that keep the promise; see :meth:`prmcal.PoolStrategy.sweep`."""
        safe = (self.rules_[index] for index in self.safe_ if self.candidates_.cost[index] <= allowance.samples)
        return tuple(rule.strategy.answer(pool, rule.allowance) for rule in safe)

    def needed(self, pool: Pool, drawn: Ints, allowance: Allowance) -> Ints:
        """Return the number of samples that the chosen rule needs; see :meth:`prmcal.PoolStrategy.needed`."""
        rule = self.chosen_rule(allowance)
        return rule.strategy.needed(pool, drawn, rule.allowance)

    def choose(self, pool: Pool, allowance: Allowance) -> int:
        """Return the answer of the chosen rule; see :meth:`prmcal.PoolStrategy.choose`."""
        rule = self.chosen_rule(allowance)
        return rule.strategy.choose(pool, rule.allowance)

    def chosen_rule(self, allowance: Allowance) -> Rule:
        """Return the rule that is used with a budget."""
        return self.rules_[self.candidates_.best(self.safe_, allowance.samples)]


def _variants(name: str, rule: FixedBudget | LearnedStopping, maximum: int) -> Iterator[Rule]:
    """Yield the variants of a rule on its curve."""
    if isinstance(rule, FixedBudget):
        title = "best-of-" if name == "best-of-n" else f"{name} of "
        yield from (Rule(f"{title}{count}", rule, Allowance(int(count))) for count in curve_counts(maximum))
        return
    for point in rule.curve_points(Allowance(maximum)):
        priced_rule = copy(rule)
        priced_rule.price = abs(point)
        yield Rule(f"{name}, price = {priced_rule.price:.2g}", priced_rule, Allowance(maximum))


def _crossed(
    rule: LearnedStopping, pool: Pool, half: NDArray[np.integer], maximum: int
) -> tuple[list[Floats], list[Floats]]:
    """Return accuracies and samples in all variants of a rule. A question is judged by a fit to the other half."""
    accuracies, samples = np.empty((2, len(rule.curve_points(Allowance(maximum))), pool.questions))
    for tested_half in (0, 1):
        tested, tuned_rule = np.flatnonzero(half == tested_half), copy(rule)
        tuned_rule.tune(pool.drawn(np.flatnonzero(half != tested_half), slice(None)), Allowance(maximum))
        for place, answered in enumerate(tuned_rule.sweep(pool.drawn(tested, slice(None)), Allowance(maximum))):
            accuracies[place, tested], samples[place, tested] = answered.accuracy, answered.samples
    return list(accuracies), list(samples)
