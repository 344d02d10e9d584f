"""The exact expected accuracy of best-of-n and pass@n, for a pool of M graded samples per question.

n samples are drawn from the pool without replacement, and the one with the best score is kept. The best of n has rank j
(0 is the best of the pool) with probability C(M-1-j, n-1) / C(M, n), so no random numbers are needed. Samples with
equal scores are equally likely to be kept.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy, most_probable
from prmcal.registry.strategies.aggregation import Aggregate, aggregated
from prmcal.remembered import remembered

_POINTS = 24


def best_of_n(scores: NDArray[np.floating[Any]], correct: ArrayLike, counts: ArrayLike) -> Floats:
    """Compute the expected accuracy of the best-scored of n samples, in [0, 1], of shape (questions, N).

    Only the order of the scores matters. They have the shape (questions, M), and NaN (too long for the PRM) ranks last.
    `correct`, of the same shape, is whether each sample's final answer is right. `counts`, of shape (N,), are the
    values of n, each in [1, M].
    """
    return _expected(ranked(scores, correct)[1], rank_chances(scores.shape[1], counts))


def pass_at_n(correct: ArrayLike, counts: ArrayLike) -> Floats:
    """Compute the probability that at least one of n samples is right, without bias.

    With c right samples in the pool, it is 1 - C(M - c, n) / C(M, n). This is best-of-n with a perfect PRM. Parameters
    and shapes are as in :func:`best_of_n`.
    """
    right_first = np.flip(np.sort(np.asarray(correct, dtype=np.float64), axis=1), axis=1)
    return _expected(right_first, rank_chances(right_first.shape[1], counts))


@remembered
def best_of_each(scores: NDArray[np.floating[Any]], correct: Bools, maximum: int) -> Floats:
    """Return :func:`best_of_n` for every n from 1 to `maximum`, which all strategies of an LLM and a PRM share."""
    return best_of_n(scores, correct, np.arange(1, maximum + 1))


@remembered
def pass_at_each(correct: Bools, maximum: int) -> Floats:
    """Return :func:`pass_at_n` for every n from 1 to `maximum`, which all strategies of an LLM share."""
    return pass_at_n(correct, np.arange(1, maximum + 1))


def pass_at_1(correct: ArrayLike) -> Floats:
    """Compute the share of right samples of each question, of shape (questions,)."""
    means: Floats = np.asarray(correct, dtype=np.float64).mean(axis=1)
    return means


def rank_chances(size: int, counts: ArrayLike) -> Floats:
    """Return the probability that each rank of a pool of M is the best of n samples, of shape (N, M).

    `counts`, of shape (N,), are the values of n, each in [1, M]. Rank 0 is the best of the pool.
    """
    n = np.asarray(counts)
    # Each rank's probability is that of the rank above times a ratio. Binomials would overflow.
    above = np.arange(1, size)
    ratios = np.maximum(size - n[:, None] - above + 1, 0) / (size - above)
    return np.cumprod(np.concatenate([n[:, None] / size, ratios], axis=1), axis=1)


def ranked(scores: NDArray[np.floating[Any]], correct: ArrayLike) -> tuple[NDArray[np.floating[Any]], Floats]:
    """Return scores and correctness, both of shape (questions, M), in descending order of the scores.

    NaN (too long for the PRM) ranks last. Samples with equal scores have their mean correctness.
    """
    is_right = np.asarray(correct, dtype=np.float64)
    # argsort puts NaN last, also for negated scores.
    order = np.argsort(-scores, axis=1)
    values = np.take_along_axis(scores, order, axis=1)
    unread = np.isnan(values)
    begins = np.ones(values.shape, dtype=np.bool_)
    begins[:, 1:] = (values[:, 1:] != values[:, :-1]) & ~(unread[:, 1:] & unread[:, :-1])
    group = np.cumsum(begins) - 1
    totals = np.bincount(group, weights=np.take_along_axis(is_right, order, axis=1).ravel())
    shared: Floats = (totals / np.bincount(group))[group].reshape(is_right.shape)
    return values, shared


def _expected(ranked: Floats, chances: Floats) -> Floats:
    # Not `@`: the order of BLAS sums depends on the number of threads, and results must be equal to the bit.
    products: Floats = np.einsum("qm,nm->qn", ranked, chances)
    return np.minimum(products, 1.0)


@dataclass(eq=False)
class RanksByScore(PoolStrategy):
    """The base of strategies that rank whole trajectories by their scores."""

    aggregate: Aggregate = "last"
    """The way to combine the scores of the steps: the score of the last step (the whole trajectory) or of the first
    step, the smallest one, the product or the mean of the rewards, or the sum of the log-odds.
    """

    def __post_init__(self) -> None:
        if self.aggregate != "last":
            self.reads = (*type(self).reads, "step_scores")

    def choose(self, pool: Pool, allowance: Allowance) -> int:
        """Return the best-scored trajectory; see :meth:`prmcal.PoolStrategy.choose`."""
        scores = self.scores_of(pool)[0]
        return int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))

    def scores_of(self, pool: Pool) -> Floats:
        """Return the scores for ranking trajectories, log-odds of shape (questions, M)."""
        if self.aggregate == "last":
            return pool.scores
        return aggregated(pool.step_scores, pool.scores, self.aggregate)


@dataclass(eq=False)
class FixedBudget(PoolStrategy):
    """Draw the same number of samples for every question.

    A subclass computes in `accuracies` how often the answer is right. The curve is over numbers of samples.
    """

    samples: Count | None = None
    """The number of samples, at most the grid's fixed budget N. The default is N."""

    @abstractmethod
    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, Floats | None]:
        """Return the expected accuracy with n samples, and its standard error, both of shape (questions, N).

        `counts`, of shape (N,), are the values of n, each in [1, M]. The error is None if the accuracy is exact. It is
        also exact where the error is 0 for all questions.
        """

    @property
    def in_league(self) -> bool:
        """Its curve has all numbers of samples, so a fixed number adds nothing."""
        return self.samples is None

    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Compute the expectation over all draws; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._results(pool, np.array([self.count(allowance)]))[0]

    def sweep(self, pool: Pool, allowance: Allowance) -> tuple[Answered, ...]:
        """Return the results with 1 to N samples; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._results(pool, curve_counts(allowance.samples))

    def count(self, allowance: Allowance) -> int:
        """Return the number of samples. Raises a ValueError if it exceeds the fixed budget N of the grid."""
        count = self.samples or allowance.samples
        if count > allowance.samples:
            raise ValueError(
                f"'samples' is {count}, but the grid's fixed budget is {allowance.samples}. Raise scaling.samples."
            )
        return count

    def needed(self, pool: Pool, drawn: Ints, allowance: Allowance) -> Ints:
        """Return the number of samples; see :meth:`prmcal.PoolStrategy.needed`."""
        return np.full(pool.questions, self.count(allowance))

    def choose(self, pool: Pool, allowance: Allowance) -> int:
        """Return the answer that is most probably given; see :meth:`prmcal.PoolStrategy.choose`."""
        pool_size = np.array([pool.size])
        return most_probable(pool, lambda graded_pool: float(self.accuracies(graded_pool, pool_size)[0][0, 0]))

    def _results(self, pool: Pool, counts: Ints) -> tuple[Answered, ...]:
        accuracy, error = self.accuracies(pool, counts)
        passed = pass_at_n(pool.correct, counts)
        return tuple(
            Answered(
                accuracy=accuracy[:, place],
                samples=np.full(pool.questions, float(count)),
                pass_at_samples=passed[:, place],
                fixed=True,
                order_error=None if error is None or not error[:, place].any() else error[:, place],
            )
            for place, count in enumerate(counts)
        )


class PassAt1(PoolStrategy):
    """Draw one trajectory, and answer with it."""

    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Compute the share of right trajectories; see :meth:`prmcal.PoolStrategy.answer`."""
        return Answered(pass_at_1(pool.correct), np.ones(pool.questions), fixed=True)


class PassAtN(FixedBudget):
    """Answer with a right trajectory if there is one. This is an upper bound for any choice among N samples."""

    reference = True

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, None]:
        """Compute 1 - C(M - c, n) / C(M, n) for c right of M."""
        return pass_at_n(pool.correct, counts), None


@dataclass(eq=False)
class BestOfN(FixedBudget, RanksByScore):
    """Answer with the trajectory that has the highest score (Brown et al., 2024; section 2 of the paper)."""

    citation = "Brown et al. (2024), arXiv:2407.21787"
    reads = ("scores",)

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, None]:
        """Compute the expectation in closed form."""
        return best_of_n(self.scores_of(pool), pool.correct, counts), None


def curve_counts(maximum: int) -> Ints:
    """Return the numbers of samples of a curve: about 24 from 1 to `maximum` in equal ratios, and powers of 2."""
    spread = np.rint(np.geomspace(1, maximum, _POINTS)).astype(np.int64)
    return np.union1d(spread, 2 ** np.arange(int(maximum).bit_length()))
