"""Strategies whose number of samples depends on the question: IAS and its reference points."""

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.contracts.strategy import Allowance, Answered, SearchStrategy
from prmcal.registry.strategies import best_of

_SMALLEST_CHANCE = 1e-4
# N_IAS(.006, .011964) is 2, but the logarithms give 2.0000000000000004, whose ceiling is 3.
_CEILING_TOLERANCE = 1e-9


def samples_needed(probability: ArrayLike, target: ArrayLike) -> Floats:
    """Return N_IAS(p, C) = log(1 - C) / log(1 - p) (Proposition 1), above 0 and not rounded.

    With so many samples, at least one is right with probability C. `probability`, of any shape, is p of one sample in
    [0, 1]. It is clipped to [1e-4, 1 - 1e-4]. NaN gives NaN. `target` is C in (0, 1), or several, of a shape that is
    broadcast with p.
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    return np.asarray(np.log1p(-np.asarray(target, dtype=np.float64)) / np.log1p(-p), dtype=np.float64)


def adaptive_samples(probability: ArrayLike, target: ArrayLike, maximum: int) -> Ints:
    """Return min(ceil(N_IAS(p, C)), N_max), at least 1. Where p is NaN (too long for the PRM), return N_max."""
    rounded_up = np.ceil(samples_needed(probability, target) * (1 - _CEILING_TOLERANCE))
    samples: Ints = np.clip(np.nan_to_num(rounded_up, nan=maximum), 1, maximum).astype(np.int64)
    return samples


def expansions_needed(rewards: ArrayLike, target: float, maximum: int) -> int:
    """Return M_IAS = min(ceil(N_IAS(r_min, C) / K), M_max), the continuations of each of K prefixes (section 4.1).

    The rewards, of shape (K,), are calibrated; K is at least 1. For NaN, the reward of a prefix that is too long, the
    result is M_max, which is at least 1. C is in (0, 1).
    """
    chances = np.asarray(rewards, dtype=np.float64)
    samples_of_each = samples_needed(chances.min(), target) / chances.size
    ceiling = np.ceil(samples_of_each * (1 - _CEILING_TOLERANCE))
    return int(np.clip(np.nan_to_num(ceiling, nan=maximum), 1, maximum))


def beams_needed(rewards: ArrayLike, target: float, expansions: int, maximum: int) -> int:
    """Return K_IAS, the smallest k with N_IAS(r_k, C) <= k M, or K_max if there is none (section 4.1).

    The rewards, of shape (candidates,), are the calibrated ones of the candidate prefixes, the best first. A NaN (too
    long for the PRM) fulfils the condition for no k. C is in (0, 1), M are the continuations of each prefix, and K_max
    is at least 1.
    """
    chances = np.asarray(rewards, dtype=np.float64)[:maximum]
    tries = expansions * np.arange(1, len(chances) + 1)
    enough = np.flatnonzero(samples_needed(chances, target) * (1 - _CEILING_TOLERANCE) <= tries)
    return int(enough[0]) + 1 if len(enough) else min(maximum, len(chances))


class BestOfNWithIAS(best_of.RanksByScore):
    """Answer with the best-scored of min(ceil(N_IAS), N) samples.

    N_IAS is computed from the calibrated reward of the bare question. Samples are ranked by their uncalibrated scores.
    A question that is too long for the PRM has no reward and gets the whole budget N.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads: tuple[Reads, ...] = ("scores", "rewards")
    targeted = True

    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        chances = pool.success if "success" in self.reads else pool.rewards
        samples, maximum = adaptive_samples(chances, target_of(allowance), allowance.samples), allowance.samples
        at_samples = (np.arange(len(samples)), samples - 1)
        return Answered(
            accuracy=best_of.best_of_each(self.scores_of(pool), pool.correct, maximum)[at_samples],
            samples=samples.astype(np.float64),
            pass_at_samples=best_of.pass_at_each(pool.correct, maximum)[at_samples],
        )


class OracleIAS(BestOfNWithIAS):
    """Best-of-n + IAS with the success rate of each question in place of the calibrated reward.

    The success rate is from the bare question's follow-ups, which are independent of the pool. The success probability
    must not come from the trajectories on which the strategy is judged. Otherwise a question that is lucky in the pool
    would get fewer samples, and these would be right too often: the accuracy would be too high. With independent
    follow-ups, the accuracy is without bias for the numbers of samples that were chosen. With n follow-ups, the success
    rate has a standard error of at most 1 / (2 sqrt(n)), so an oracle with more follow-ups would spend its samples
    slightly better.
    """

    reads = ("scores", "success")
    reference = True


class FixedOfEqualCost(best_of.RanksByScore):
    """Best-of-n with the same n for every question, and the mean cost of best-of-n + IAS.

    If the mean is not an integer, each question gets the integer below or above it, with probabilities that give the
    mean.
    """

    reads = ("scores", "rewards")
    targeted = True
    reference = True
    in_league: ClassVar[bool] = False

    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.rewards, target_of(allowance), allowance.samples)
        mean = samples.mean()
        below = int(np.floor(mean))
        counts = np.array([below, min(below + 1, allowance.samples)])
        chances = np.array([1 - (mean - below), mean - below])
        return Answered(
            accuracy=np.einsum("qn,n->q", best_of.best_of_n(self.scores_of(pool), pool.correct, counts), chances),
            samples=np.full(pool.questions, float(np.sum(counts * chances))),
            pass_at_samples=np.einsum("qn,n->q", best_of.pass_at_n(pool.correct, counts), chances),
            estimated_from=samples.astype(np.float64),
        )


def target_of(allowance: Allowance) -> float:
    """Return the target probability C of a targeted strategy. Raises a ValueError if the allowance has no target."""
    if allowance.target is None:
        raise ValueError("The allowance has no target probability C. Set scaling.targets in the grid.")
    return allowance.target


class BeamSearch(SearchStrategy):
    """Keep the K best prefixes, and draw M continuations of each (Snell et al., 2024; section 2 of the paper)."""

    citation = "Snell et al. (2024), arXiv:2408.03314"


class BeamSearchWithIASOfK(SearchStrategy):
    """Keep only as many of the best prefixes as the target needs, K_IAS, with a fixed M."""

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "rewards")
    targeted = True

    def keep(self, rewards: Floats, target: float | None) -> int:
        """Return K_IAS, the smallest k with N_IAS(r_k, C) <= k M, at most K, where r_k is the k-th highest reward."""
        assert target is not None
        return beams_needed(rewards, target, self.expansions, self.width)


class BeamSearchWithIASOfM(SearchStrategy):
    """Draw as many continuations of each prefix as the worst kept prefix needs, M_IAS, with a fixed K."""

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "rewards")
    targeted = True

    def expand(self, rewards: Floats, target: float | None) -> int:
        """Return M_IAS = min(ceil(N_IAS(r_min, C) / K), M), where K is the number of kept prefixes."""
        assert target is not None
        return expansions_needed(rewards, target, self.expansions)
