"""Coverage: how often the success probability p of a prefix is at least the reward r^(beta).

A reward of level beta should be below p in a share 1 - beta of cases (section 3.2 of "Know What You Don't Know", Park
et al., 2025). p is not observed, only k successes of n follow-ups. The share of k/n >= r is a different number, because
the noise of the success rates does not move them across r equally often in both directions. Therefore the distribution
of p is estimated first, among prefixes with similar rewards. Each prefix then counts with its posterior probability of
p >= r given k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import QuestionRatio
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows
from prmcal.registry.metrics.mixing import divided_point, fit_mixing

__all__ = ["Coverage"]

_BINS = 20
_MEDIAN = 0.5


class Coverage(Metric):
    """The share of prefixes with p >= r. All questions have equal weights, and so have all prefixes of a question.

    It is the probability of p >= r for a random prefix of a random question. Questions are exchangeable, and prefixes
    of one question are not. The ``conformal`` calibrator guarantees 1 - beta for this probability.

    The distribution of p is estimated in up to 20 bins of equal mass by reward. Each prefix contributes its posterior
    probability of p >= r and a correction, which is 0 on average: the effect of the weight of its k on the estimate.
    With the correction, the interval includes to first order the error of the estimated distributions.
    Where p is known, nothing is estimated: a prefix with a final answer has p = k/n, and every p is at least a reward
    of 0.

    Notes
    -----
    The remaining bias was measured in simulations with known p, 100 questions and n = 8. If the density of p is smooth
    and rewards are not close to 0 or 1, it is below .015: a bound with coverage .90 is measured as .90, whereas the
    share of k/n >= r is .79. The bias is larger where 8 follow-ups cannot distinguish p from r. With most rewards
    within about 1/n of 0 or 1 it reached .13, which is more than the interval covers: an overconfident PRM with
    coverage .21 was measured as .34, whereas the share is .56. More follow-ups reduce the bias. A reward that equals p
    covers it, but no count can show this: the measured coverage is then about .5.
    """

    title, each_level = "Coverage", True
    description = "How often the success probability is at least the reward."

    def measure(self, rows: PrefixRows) -> QuestionRatio:
        """Return the mean of each question. It is in [0, 1] up to the correction."""
        counts = rows.counts
        covered = _covered(rows, rows.terminal, 1 / counts[rows.question_index])
        return QuestionRatio(rows.totals(covered) / counts, np.ones(len(counts)), bounds=(0.0, 1.0))

    def described(self, level: float | None = None) -> str:
        """Return the description with the level and its ideal value."""
        if level is None:
            return super().described()
        which = "the median" if level == _MEDIAN else f"level {level:g}, or a point estimate"
        return f"{self.description[:-1]} ({which}): {1 - level:g} is ideal."


def _covered(
    rows: PrefixRows, terminal: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the contribution of each prefix: 0 or 1 if p is known, else an estimate, which can be slightly outside."""
    covered = (rows.success_rate >= rows.reward).astype(np.float64)
    unknown = ~terminal & (rows.reward > 0)
    if not unknown.any():
        return covered
    reward, weight = rows.reward[unknown], weights[unknown]
    group = _equal_mass(reward, weight)
    successes, follow_ups = rows.successes[unknown], rows.follow_ups[unknown]
    base = int(follow_ups.max()) + 1
    outcomes, outcome = np.unique(follow_ups * base + successes, return_inverse=True)
    groups, kinds = int(group.max()) + 1, len(outcomes)
    mass = np.bincount(group * kinds + outcome, weights=weight, minlength=groups * kinds).astype(np.float64)
    mixing = fit_mixing(mass.reshape(groups, kinds), outcomes % base, outcomes // base)

    point, share = divided_point(reward)
    by_point = mixing.relative * mixing.density[:, None]
    later = by_point[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - by_point
    posterior = later[group, outcome, point] + share * by_point[group, outcome, point]
    # The derivative of the weighted sum of posteriors by the density of a group, and by the mass of an outcome.
    shape = by_point.shape
    place = np.ravel_multi_index((group, outcome, point), shape)
    reached, within, summed = (
        np.bincount(place, weights=each, minlength=by_point.size).reshape(shape)
        for each in (weight, weight * share, weight * posterior)
    )
    above = reached.cumsum(axis=2) - reached + within
    by_density = (mixing.relative * (above - summed.sum(axis=2, keepdims=True))).sum(axis=1)
    covered[unknown] = posterior + mixing.by_mass(by_density)[group, outcome]
    return covered


def _equal_mass(reward: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the bin of each prefix, numbered from 0 without gaps. Equal rewards are in the same bin."""
    shares = np.arange(1, _BINS) / _BINS
    edges = np.unique(np.quantile(reward, shares, weights=weight, method="inverted_cdf"))
    index: NDArray[np.intp] = np.unique(np.searchsorted(edges, reward), return_inverse=True)[1]
    return index
