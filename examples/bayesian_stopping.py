"""Optimal Bayesian stopping (Huang, Ma and Zhou, 2026), as a plugin: the shapes of earlier votes are the prior.

prmcal check examples/bayesian_stopping.py
prmcal run grid.yaml --plugin examples/bayesian_stopping.py      # with `- Bayesian stopping` in the strategies
"""

import numpy as np
from scipy.special import comb, gammaln

from prmcal import Drawn, Outcome, SequentialRule, first_at_least, strategy


@strategy("Bayesian stopping")
class BayesianStopping(SequentialRule):
    """Stop when the leading answer is the most probable one with the given confidence, and give it.

    A shape is the sorted shares of the answers of a question, p_1 >= p_2 >= ... Those of the calibration questions are
    equally likely beforehand, and which drawn answer has which share is not known. The rule sees three numbers: the
    votes a of the leader, the votes b of the runner-up, and the votes of all others, of which none has more than b. The
    posterior probability that the leader has the share p_1 is

        sum over shapes and j of p_1^a p_j^b S_1j / sum over shapes, i and j of p_i^a p_j^b S_ij,

    where S_ij is the probability of the other votes, by dynamic programming over the shares (algorithm 2 of the paper,
    with L = 3). Votes of others that are as many as those of the runner-up could have been its own, so m of them weigh
    1 / C(m + c, c), where c is 1, or 2 if a = b. A sample without an answer does not vote. No score is read, and it
    finds the most frequent answer, which can be wrong.
    """

    citation = "Huang, Ma and Zhou (2026), ICML, arXiv:2602.05395"
    tuned = True
    budget = ("confidence", tuple(1 - float(doubt) for doubt in np.geomspace(0.7, 1e-9, 24)))

    def __init__(self, confidence: float = 0.95) -> None:
        self.confidence = confidence

    def tune(self, pool, allowance) -> None:
        """Learn the shapes, and compute the posterior; see :meth:`prmcal.PoolStrategy.tune`."""
        counts = [np.unique(answers[answers >= 0], return_counts=True)[1] for answers in pool.answers]
        shapes = np.zeros((len(counts), max(1, max(map(len, counts)))))
        for shape, votes in zip(shapes, counts, strict=True):
            shape[: len(votes)] = np.sort(votes)[::-1] / max(votes.sum(), 1)
        self.posterior = posterior(shapes[shapes.any(axis=1)], min(allowance.samples, pool.size))

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the leader is the most probable answer."""
        votes = drawn.votes()
        maximum = len(self.posterior) - 1
        other_votes = (drawn.answers >= 0).cumsum(axis=1) - votes.first - votes.second
        places = [np.minimum(number, maximum) for number in (votes.first, votes.second, other_votes)]
        chance = self.posterior[tuple(places)]
        # More draws than a calibration question had are not known.
        chance[:, maximum - 1 :] = 1.0
        return Outcome(first_at_least(chance, points), votes.right)


def posterior(shapes: np.ndarray, maximum: int) -> np.ndarray:
    """Return the posterior for a, b and the votes of others in 0 to N, of shape (N + 1, N + 1, N + 1); 0 if unknown.

    `shapes`, of shape (shapes, answers), has the sorted shares of each.
    """
    shapes, weights = np.unique(shapes, axis=0, return_counts=True)
    # The leader has one of the different shares of a shape, and the dynamic program runs over the shares that are left.
    rests, shares, times, firsts = [], [], [], []
    for shape, weight in zip(shapes, weights, strict=True):
        for share, count in zip(*np.unique(shape[shape > 0], return_counts=True), strict=True):
            rests.append(np.delete(shape, np.flatnonzero(shape == share)[0]))
            shares.append(share)
            times.append(weight * count)
            firsts.append(weight * (share == shape[0]))
    other_shares, share = np.array(rests).reshape(len(shares), -1), np.array(shares)
    leader = share[:, None] ** np.arange(maximum + 1)
    posteriors = np.zeros((maximum + 1,) * 3)
    for second in range(maximum // 2 + 1):
        ways = _ways(other_shares, second, maximum)
        if not second:  # There is one answer, and no other votes.
            ways = np.ones((len(share), 1, 1))
        m = np.arange(ways.shape[1])
        for a in range(max(second, 1), maximum + 1):
            c = 2 if a == second else 1
            likelihoods = (ways / comb(m + c, c)[:, None] if second else ways).sum(axis=1) * leader[:, a, None]
            total = np.array(times) @ likelihoods
            chances = np.divide(np.array(firsts) @ likelihoods, total, out=np.zeros_like(total), where=total > 0)
            posteriors[a, second, : len(chances)] = chances
    return posteriors


def _ways(other_shares: np.ndarray, second: int, maximum: int) -> np.ndarray:
    """Return the weights of all votes of the others, of shape (rows, as many as the runner-up + 1, N + 1).

    One of the shares in each row of `other_shares` is that of the runner-up.
    """
    ties, size = maximum // max(second, 1), maximum + 1
    # Axis 1: whether the runner-up has a share. Axis 2: those with as many votes. Axis 3: all votes of the others.
    ways = np.zeros((len(other_shares), 2, ties + 1, size))
    ways[:, 0, 0, 0] = 1.0
    for share in other_shares.T[:, :, None, None, None]:
        new_ways = ways.copy()
        for votes in range(1, second):
            new_ways[..., votes:] += ways[..., : size - votes] * share**votes * np.exp(-gammaln(votes + 1))
        if second:
            tied = ways[:, :, :-1, : size - second] * share**second * np.exp(-gammaln(second + 1))
            new_ways[:, :, 1:, second:] += tied
        new_ways[:, 1:] += ways[:, :1] * share**second
        ways = new_ways
    return np.asarray(ways[:, 1])
