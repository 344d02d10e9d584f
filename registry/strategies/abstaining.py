"""Best-of-n that says "I don't know" where its best sample is not good enough, with a promised risk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import Count, Share
from prmcal.registry.contracts.strategy import Answered, Choice, Setting
from prmcal.registry.strategies.aggregation import Aggregate, RanksByScore
from prmcal.registry.strategies.exact import pass_at_n, rank_chances, ranked
from prmcal.registry.strategies.fixed import curve_counts

__all__ = ["AbstainingBestOfN", "risk_bound"]


class AbstainingBestOfN(RanksByScore):
    """Answer with the best-scored of n samples if its score is above a bound, and give no answer otherwise.

    The bound is the lowest one with the promised risk (conformal risk control, Angelopoulos et al., 2024). The loss of
    a question is 1 if it is answered wrongly, and 0 if it is answered rightly or not at all, in expectation over the
    draws of n samples. For m calibration questions with the mean loss R, the bound fulfils (m R + 1) / (m + 1) <= risk.
    Then a new question is answered wrongly with probability `risk` at most, if it is drawn as the calibration questions
    were. The promise is a mean over all calibration sets and questions, also those without an answer. It does not
    say how often given answers are wrong, and it does not hold for questions of another kind.

    The risk of best-of-n depends on n, since more samples find higher scores of wrong trajectories too. It can only be
    measured for as many samples as the calibration questions have trajectories, so no more are drawn. A question whose
    samples are all too long for the PRM gets no answer.

    Parameters
    ----------
    risk : float in (0, 1)
        The largest probability of a wrong answer.
    samples : int, optional
        n. The default is N, or the number of trajectories of the calibration questions if that is less.
    """

    citation = "Angelopoulos et al. (2024), ICLR, arXiv:2208.02814"
    reads = ("scores",)
    tuned = True

    def __init__(
        self, risk: Share = 0.1, samples: Count | None = None, aggregate: Aggregate = "last"
    ) -> None:
        super().__init__(aggregate)
        self.risk = risk
        self.samples = samples

    @property
    def in_league(self) -> bool:
        """It is not compared by accuracy at equal cost, since it may give no answer."""
        return False

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Keep the calibration questions, from which the bound of each n is chosen."""
        self.known_ = (self.scores_of(pool), pool.correct)

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        most = self._most(setting)
        count = self.samples or most
        if count > most:
            raise ValueError(
                f"'samples' is {count}, but the risk can be promised for at most {most} samples: the grid's fixed "
                "budget, and the trajectories of a calibration question. Raise scaling.samples or "
                "calibration.trajectories."
            )
        return self._results(pool, np.array([count]))[0]

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Return the results with 1 to the largest number of samples; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._results(pool, curve_counts(self._most(setting)))

    def choose(self, pool: Pool, setting: Setting) -> Choice:
        """Return the best-scored trajectory, and withhold it at or below the bound."""
        best = super().choose(pool, setting)
        score = float(self.scores_of(pool)[0, best.trajectory])
        answered = score > risk_bound(*self.known_, pool.size, self.risk)
        return Choice(best.trajectory, withheld=not answered)

    def _most(self, setting: Setting) -> int:
        return min(setting.samples, int(self.known_[1].shape[1]))

    def _results(self, pool: Pool, counts: NDArray[np.int64]) -> tuple[Answered, ...]:
        scores, right = ranked(self.scores_of(pool), pool.correct)
        chances, passed = rank_chances(pool.size, counts), pass_at_n(pool.correct, counts)
        results = []
        for place, count in enumerate(counts):
            bound = risk_bound(*self.known_, int(count), self.risk)
            given = np.where(scores > bound, chances[place], 0.0)
            results.append(
                Answered(
                    accuracy=np.einsum("qm,qm->q", given, right),
                    samples=np.full(pool.questions, float(count)),
                    pass_at_samples=passed[:, place],
                    fixed=True,
                    abstained=np.clip(1 - given.sum(axis=1), 0.0, 1.0),
                )
            )
        return tuple(results)


def risk_bound(scores: NDArray[np.float64], correct: NDArray[np.bool_], count: int, risk: float) -> float:
    """Return the lowest bound above which the best score of n samples may be, for the promised risk.

    Parameters
    ----------
    scores, correct : ndarray of shape (questions, M)
        The trajectories of the calibration questions.
    count : int
        n, in [1, M].
    risk : float

    Returns
    -------
    float
        A score; -inf if everything may be answered, and inf if nothing may.
    """
    values, right = ranked(scores, correct)
    losses = rank_chances(scores.shape[1], np.array([count]))[0] * (1 - right)
    read = ~np.isnan(values)
    falling = np.argsort(-values[read], kind="stable")
    levels, sums = values[read][falling], np.cumsum(losses[read][falling])
    questions = len(scores)
    # sums[i] is m R for a bound just below levels[i].
    kept = (sums + 1) / (questions + 1) <= risk
    if 1 / (questions + 1) > risk:
        return np.inf
    if kept.all():
        return -np.inf
    # The first loss that is too much must be excluded, and all scores equal to it.
    return float(levels[int(np.argmin(kept))])
