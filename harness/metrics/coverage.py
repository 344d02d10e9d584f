"""How often the success probability p of a prefix is at least the reward r^(beta), told from k of n successes.

A reward of level beta should lie below p in a share 1 - beta of cases (section 3.2 of "Know What You Don't Know",
Park et al., 2025). But p is not seen, only k of n follow-ups, and the share of k/n >= r is another number: noise
carries success rates across r in both directions, and not alike. So the distribution of p is estimated first, among
prefixes of about the same reward, and each prefix counts with its probability of p >= r given its k.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Metric, QuestionMean, question_totals
from prmcal.harness.metrics.mixing import fit_mixing, share_above
from prmcal.harness.metrics.rows import PrefixRows

__all__ = ["Coverage", "coverage_metrics"]

_BINS = 20
_MEDIAN = 0.5
_LEVELS = (0.1, 0.5, 0.9)


class Coverage(QuestionMean):
    """Share of prefixes with p >= r; every question counts the same, and so does every prefix of a question.

    Questions are what is exchangeable: this is the probability, for a random prefix of a random question, that the
    ``conformal`` calibrator keeps above 1 - beta.

    The distribution of p is estimated in up to 20 bins of equal mass by reward. A prefix adds its posterior
    probability of p >= r, and what the weight of its k changes in the whole estimate (0 on average), so that resampled
    questions spread as the estimate does, the fitted distributions included, to first order. Where p is known
    nothing is estimated: a terminal prefix has p = k/n, and every p is at least a reward of 0.

    Parameters
    ----------
    rows : PrefixRows
        Rewards of one level, and successes.
    terminal : ndarray of shape (rows,), bool
        Whether the prefix holds its final answer, so that k is 0 or n for certain.

    Raises
    ------
    ValueError
        If `terminal` has another shape.

    Notes
    -----
    The bias that is left was measured in simulations with known p, 100 questions and n = 8. Where the density of p is
    smooth and rewards are not near 0 or 1 it is below .015: a bound that covers .90 is measured as .90, and by the
    share of k/n >= r as .79. It stays where 8 follow-ups cannot tell p from r: with most rewards nearer to 0 or 1
    than about 1/n it reached .13 (an overconfident PRM that covers .21 is measured as .34, by the share as .56), more
    than the interval allows for. More follow-ups mend that. A reward that hits p exactly always covers it, but no
    count can tell: expect about .5.
    """

    def __init__(self, rows: PrefixRows, terminal: NDArray[np.bool_]) -> None:
        if np.shape(terminal) != rows.reward.shape:
            raise ValueError(
                f"'terminal' must have one entry per prefix: {len(rows.reward)}. Got the shape {np.shape(terminal)}."
            )
        questions = len(rows.question_ids)
        counts = question_totals(rows.question_index, np.ones(len(rows.reward)), questions)
        covered = _covered(rows, np.asarray(terminal, dtype=bool), 1 / counts[rows.question_index])
        means = question_totals(rows.question_index, covered, questions) / counts
        super().__init__(means, rows.question_ids)
        self.rows = len(rows.reward)

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the coverage under each row of `weights`, in [0, 1]."""
        return np.clip(super().values(weights), 0.0, 1.0)


def coverage_metrics(by_level: Mapping[float, PrefixRows], terminal: NDArray[np.bool_]) -> dict[str, Metric]:
    """Coverage by the rewards of each level: ``coverage_0.1`` for beta = 0.1.

    Parameters
    ----------
    by_level : mapping of float to PrefixRows
        The same prefixes, with the rewards of each level. Where 0.5 is the only one, a point estimate, it stands in
        for 0.1 and 0.9 too.
    terminal : ndarray of shape (rows,), bool
        As for :class:`Coverage`.
    """
    metrics: dict[float, Metric] = {level: Coverage(rows, terminal) for level, rows in by_level.items()}
    if set(metrics) == {_MEDIAN}:
        metrics = dict.fromkeys(_LEVELS, metrics[_MEDIAN])
    return {f"coverage_{level:g}": metric for level, metric in metrics.items()}


def _covered(
    rows: PrefixRows, terminal: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What each prefix adds: 0 or 1 where it is known, else an estimate, which may lie a little outside."""
    covered = (rows.success_rate >= rows.reward).astype(np.float64)
    unknown = ~terminal & (rows.reward > 0)
    if not unknown.any():
        return covered
    reward, weight = rows.reward[unknown], weights[unknown]
    group = _equal_mass(reward, weight)
    counts = np.stack([rows.successes[unknown], rows.follow_ups[unknown]])
    outcomes, outcome = np.unique(counts, axis=1, return_inverse=True)
    groups, kinds = int(group.max()) + 1, outcomes.shape[1]
    mass = np.bincount(group * kinds + outcome, weights=weight, minlength=groups * kinds).astype(np.float64)
    mixing = fit_mixing(mass.reshape(groups, kinds), outcomes[0], outcomes[1])

    above, relative = share_above(reward), mixing.relative[group, outcome]
    posterior: NDArray[np.float64] = np.einsum("rg,rg,rg->r", above, relative, mixing.density[group])
    # How the weighted sum of posteriors changes with the density of a group, and that with the mass of an outcome.
    change = weight[:, None] * relative * (above - posterior[:, None])
    by_density = np.einsum("rb,rg->bg", (group[:, None] == np.arange(groups)).astype(np.float64), change)
    by_mass = np.einsum("bg,bog->bo", by_density, mixing.slopes)
    covered[unknown] = posterior + by_mass[group, outcome]
    return covered


def _equal_mass(reward: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.intp]:
    """The bin of each prefix, from 0 without gaps; equal rewards share one."""
    shares = np.arange(1, _BINS) / _BINS
    edges = np.unique(np.quantile(reward, shares, weights=weight, method="inverted_cdf"))
    index: NDArray[np.intp] = np.unique(np.searchsorted(edges, reward), return_inverse=True)[1]
    return index
