"""Rules that stop when the samples agree: they look at answers only, and need no PRM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts.plugin import Count, Share
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.orders import highest_so_far
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule, first_reached

_CONFIDENCES = tuple(float(1 - error) for error in np.geomspace(0.6, 1e-12, 24))
_RISKS = tuple(-float(np.log(each)) for each in np.geomspace(0.9, 1e-9, 24))
_MIXED = 41


@dataclass(eq=False)
class AdaptiveConsistency(SequentialRule):
    """Stop when the leading answer is the majority of the two leading ones with a given confidence.

    After each sample, v1 and v2 are the votes of the leader and of the runner-up. Stop when P(X > 1/2) is at least the
    confidence, where X has the law Beta(v1 + 1, v2 + 1). Answer with the most frequent answer. Trajectories without an
    answer are drawn, but do not vote.

    Parameters
    ----------
    confidence : float in (0, 1)
    """

    citation = "Aggarwal et al. (2023), EMNLP, arXiv:2305.11860"

    budget = ("confidence", _CONFIDENCES)
    confidence: Share = 0.95

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the leader is far enough ahead."""
        votes = drawn.votes()
        sure = -_doubt(drawn.orders.draws)[votes.first, votes.second]
        highest = highest_so_far(sure, out=sure)
        return Outcome(first_reached(highest, tuple(point - 1 for point in points)), votes.right)


@dataclass(eq=False)
class EarlyStoppingSelfConsistency(SequentialRule):
    """Draw samples in windows of equal size, and stop after a window in which all answers are equal.

    Answer with the most frequent answer of all samples. A window with a trajectory without an answer does not agree.
    If N is not a multiple of the window, the last samples are an incomplete window, after which the budget is spent.

    Parameters
    ----------
    window : int, at least 1
        The number of samples in a window.
    """

    citation = "Li et al. (2024), ICLR, arXiv:2401.10480"

    budget = ("window", ())
    window: Count = 5

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return windows of 1 to N samples."""
        sizes = np.unique(np.rint(np.geomspace(1, setting.samples, 24)))
        return tuple(float(size) for size in sizes)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop after a window that agrees."""
        stops = [_after_agreement(drawn.answers, int(point)) for point in points]
        return Outcome(np.stack(stops), drawn.votes().right)


@dataclass(eq=False)
class CertifiedSelfConsistency(SequentialRule):
    """Stop when the leading answer is certified to be the LLM's most frequent one, at a given risk of error.

    For two answers a and b, the votes s for a and f for b that come after the first appearance of a give the evidence

        e(s, f) = mean over q of (2 q)^s (2 (1 - q))^f,

    where q has the law Beta(1/2, 1/2) on (1/2, 1), in 41 points. If a is not more frequent than b, the mean of e is at
    most 1 at any time at which one may stop (an e-process), so it ever reaches x with probability 1/x at most (Ville).
    The answer that appeared as the k-th of all is certified when its evidence against every other answer is at least
    k (k + 1) / delta. Since 1 / (k (k + 1)) sums to 1, an answer that is not the most frequent one is ever certified
    with probability delta at most, for any number of possible answers. Only the leader can be certified, and its
    evidence counts all votes of the runner-up, which is less than it could count.

    The rule of the paper multiplies factors of changing pairs of answers. Its bound holds for one pair that is fixed in
    advance, so each pair has evidence of its own here. What is certified is that the answer is the most frequent one,
    not that it is right. Trajectories without an answer do not vote.

    Parameters
    ----------
    delta : float in (0, 1)
        The risk: the probability of a wrong certificate at most.
    uncertified : "answer" or "abstain"
        What to do after N samples without a certificate: answer with the most frequent answer, or give none.
    """

    citation = "Certified self-consistency (2025), arXiv:2510.17472; Ville (1939)"

    delta: Share = 0.1
    uncertified: Literal["answer", "abstain"] = "answer"

    def point(self, setting: Setting) -> float:
        """Return -log(delta)."""
        return -float(np.log(self.delta))

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return -log(delta) for delta from .9 to 1e-9."""
        return _RISKS

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the leader is certified."""
        votes = drawn.votes()
        sure = log_evidence(drawn.orders.draws)[np.maximum(votes.first - 1, 0), votes.second]
        sure -= _log_prices(drawn.orders.draws)[votes.discovered]
        highest = highest_so_far(sure, out=sure)
        stops = first_reached(highest, points)
        if self.uncertified == "answer":
            return Outcome(stops, votes.right)
        return Outcome(stops, votes.right, np.stack([highest[:, -1] < point for point in points]))


@lru_cache(maxsize=8)
def _doubt(most: int) -> Floats:
    """P(X <= 1/2) for 0, 1, ..., `most` votes v1 and v2."""
    votes = np.arange(most + 1)
    return np.asarray(betainc(votes[:, None] + 1, votes + 1, 0.5), dtype=np.float64)


@lru_cache(maxsize=8)
def _log_prices(most: int) -> Floats:
    """log(k (k + 1)) for the answer that appeared as the k-th of all, at k; infinite at 0, which is no answer."""
    k = np.arange(1, most + 1)
    return np.append(np.inf, np.log(k * (k + 1.0)))


@lru_cache(maxsize=8)
def log_evidence(most: int) -> Floats:
    """Return log e(s, f) for 0, 1, ..., `most` votes s and f, of shape (most + 1, most + 1)."""
    likely = np.sin(np.pi / 4 * (1 + (np.arange(_MIXED) + 0.5) / _MIXED)) ** 2
    votes = np.arange(most + 1)
    terms = votes[:, None, None] * np.log(2 * likely) + votes[:, None] * np.log(2 * (1 - likely))
    found: Floats = np.logaddexp.reduce(terms, axis=2) - np.log(_MIXED)
    found.flags.writeable = False
    return found


def _after_agreement(answers: NDArray[np.signedinteger], window: int) -> Ints:
    """The number of draws of each order, of shape (orders,), with one size of the window."""
    orders, draws = answers.shape
    if window > draws:
        return np.full(orders, draws, dtype=np.int64)
    windows = answers[:, : draws // window * window].reshape(orders, -1, window)
    agree = (windows == windows[..., :1]).all(axis=2) & (windows[..., 0] >= 0)
    found: Ints = np.where(agree.any(axis=1), (agree.argmax(axis=1) + 1) * window, draws)
    return found
