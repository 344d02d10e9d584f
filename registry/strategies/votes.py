"""The strategies that vote: majority vote and weighted best-of-n, and the exact accuracy of a majority."""

from dataclasses import dataclass

import numpy as np
from scipy.special import comb, expit, gammaln

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.contracts.pool import SCORES, Pool
from prmcal.registry.strategies.best_of import FixedBudget, RanksByScore
from prmcal.registry.strategies.orders import block_means, count_votes, first_draws, mean_of_blocks


class MajorityVote(FixedBudget):
    """Answer with the most frequent answer of the samples (self-consistency, Wang et al., 2023). It needs no PRM."""

    citation = "Wang et al. (2023), ICLR, arXiv:2203.11171"

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, Floats | None]:
        """Compute the expectation: for one n exactly, which takes a while, and for several over the shared orders."""
        if len(counts) > 1:
            return _over_orders(pool, None, counts)
        return majority_of_n(pool.answers, pool.correct, int(counts[0]))[:, None], None


@dataclass(eq=False)
class WeightedBestOfN(FixedBudget, RanksByScore):
    """Answer with the answer that has the largest sum of rewards over its samples (Li et al., 2023).

    The result is exact if the whole pool is drawn. For n below M there is no closed form, so the mean over the random
    orders of all strategies is used. A trajectory that is too long for the PRM has the weight 0.
    """

    version = "2"
    citation = "Li et al. (2023), ACL, arXiv:2206.02336"
    reads = SCORES

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, Floats]:
        """Compute the mean over the shared orders."""
        weights = np.nan_to_num(expit(self.scores_of(pool)), nan=0.0)
        return _over_orders(pool, np.asarray(weights, dtype=np.float64), counts)


def _over_orders(pool: Pool, weights: Floats | None, counts: Ints) -> tuple[Floats, Floats]:
    """The mean and its error over the shared orders, for each question and n. The whole pool leaves no error."""
    orders = first_draws(pool.size, int(counts.max()))
    means = np.empty((pool.questions, len(counts), len(orders) // pool.size))
    for question in range(pool.questions):
        question_weights = None if weights is None else weights[question]
        votes = count_votes(pool.answers[question], pool.correct[question], orders, question_weights)
        means[question] = block_means(votes.right.T[counts - 1], pool.size)
    accuracy, error = mean_of_blocks(means)
    return accuracy, np.where(counts < pool.size, error, 0.0)


def majority_of_n(answers: Ints, correct: Bools, count: int) -> Floats:
    """Return the exact probability that the most frequent answer of n drawn trajectories is right.

    Let c_a be the number of trajectories with answer a in the pool. The number of draws in which answer a has v votes
    and wins is C(c_a, v) times the coefficient of x^(n - v) in the product over the other answers b of sum_{j <= v}
    C(c_b, j) x^j. Terms with j = v are ties, in which each winner gets an equal share. For trajectories without an
    answer, j is not limited.

    Answers, as numbers or -1 for none, and correctness have the shape (questions, M), and the result (questions,). n is
    in [1, M].
    """
    return np.array([_majority(*row, count) for row in zip(answers, correct, strict=True)])


def _majority(answers: Ints, correct: Bools, count: int) -> float:
    """Return the chance that the majority of `count` answers to one question is right."""
    names, index, sizes = np.unique(answers, return_inverse=True, return_counts=True)
    share_right = np.bincount(index, correct) / sizes
    total = 0.0
    log_all = _log_choose(len(answers), count)
    for answer in np.flatnonzero((names >= 0) & (share_right > 0)):
        other_sizes = [(int(size), bool(name >= 0)) for name, size in zip(names, sizes, strict=True)]
        del other_sizes[answer]
        for votes in range(1, min(int(sizes[answer]), count) + 1):
            log_ways = _log_choose(int(sizes[answer]), votes) - log_all
            total += share_right[answer] * _shared_wins(other_sizes, votes, count - votes, log_ways)
    return min(total, 1.0)


def _shared_wins(other_sizes: list[tuple[int, bool]], votes: int, other_draws: int, log_ways: float) -> float:
    """Return the number of ways to draw `other_draws` other trajectories so that no answer has more than `votes` votes.

    Each way is divided by its number of winners. `other_sizes` has the size of each other answer in the pool, and False
    for trajectories without an answer, which have no votes. The result is multiplied by exp(`log_ways`).
    """
    # The scaled numbers of ways, by the answers that tie and the trajectories that are drawn: binomials overflow.
    ways = np.zeros((other_draws // votes + 1, other_draws + 1))
    ways[0, 0] = 1.0
    for size, has_votes in other_sizes:
        most_drawn = min(size, other_draws, votes - 1 if has_votes else size)
        combinations = comb(size, np.arange(most_drawn + 1))
        new_ways = np.zeros_like(ways)
        for more_draws, combination in enumerate(combinations):
            new_ways[:, more_draws:] += combination * ways[:, : other_draws + 1 - more_draws]
        if has_votes and size >= votes and other_draws >= votes:
            new_ways[1:, votes:] += comb(size, votes) * ways[:-1, : other_draws + 1 - votes]
        scale = new_ways.max()
        if scale == 0.0:
            return 0.0
        ways, log_ways = new_ways / scale, log_ways + float(np.log(scale))
    shares = ways[:, other_draws] / np.arange(1, len(ways) + 1)
    return float(shares.sum() * np.exp(log_ways))


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
