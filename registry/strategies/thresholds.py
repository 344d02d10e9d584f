"""Best-of-n that gives no answer, or asks a stronger LLM, where its best sample is not good enough."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.contracts.plugin import Count, Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, Asked, Choice, PoolStrategy, Setting
from prmcal.registry.strategies import best_of
from prmcal.registry.strategies.evidence import ScoreEvidence


@dataclass(eq=False)
class AbstainingBestOfN(best_of.RanksByScore):
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
    """

    citation = "Angelopoulos et al. (2024), ICLR, arXiv:2208.02814"
    reads = ("scores",)
    tuned = True

    risk: Share = 0.1
    """The largest probability of a wrong answer. In (0, 1)."""
    samples: Count | None = None
    """n. The default is N, or the number of trajectories of the calibration questions if that is less."""

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
        return self._results(pool, best_of.curve_counts(self._most(setting)))

    def choose(self, pool: Pool, setting: Setting) -> Choice:
        """Return the best-scored trajectory, and withhold it at or below the bound."""
        best = super().choose(pool, setting)
        score = float(self.scores_of(pool)[0, best.trajectory])
        answered = score > risk_bound(*self.known_, pool.size, self.risk)
        return Choice(best.trajectory, withheld=not answered)

    def _most(self, setting: Setting) -> int:
        return min(setting.samples, int(self.known_[1].shape[1]))

    def _results(self, pool: Pool, counts: Ints) -> tuple[Answered, ...]:
        scores, right = best_of.ranked(self.scores_of(pool), pool.correct)
        chances, passed = best_of.rank_chances(pool.size, counts), best_of.pass_at_n(pool.correct, counts)
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


def risk_bound(scores: Floats, correct: Bools, count: int, risk: float) -> float:
    """Return the lowest bound above which the best score of n samples may be, for the promised risk.

    Scores and correctness, of shape (questions, M), are those of the calibration questions, and n is in [1, M]. The
    bound is -inf if everything may be answered, and inf if nothing may.
    """
    values, right = best_of.ranked(scores, correct)
    losses = best_of.rank_chances(scores.shape[1], np.array([count]))[0] * (1 - right)
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


@dataclass(eq=False)
class Escalation(PoolStrategy):
    """Ask a stronger LLM where the cheap one is not likely right (a cascade, as in FrugalGPT).

    The strategy is run for every LLM of the grid except `to`; this is the cheap one. Each LLM answers with its
    best-scored sample. If the stronger one is asked, its answer counts, whatever the cheap one said. So the two ends of
    the threshold are the two LLMs alone, and the scores of different LLMs need not be compared.

    With ``by="answer"`` the cheap LLM draws its samples first. The probability that the best-scored one is right
    follows from its score by Platt scaling, which is fitted to the calibration questions: to the best-scored of as many
    trajectories. If these are fewer than `samples`, the probability is that of the best of fewer. With
    ``by="question"`` the calibrated reward of the bare question decides before anything is drawn, so that a question
    which escalates costs no sample of the cheap LLM.

    A question escalates also if the PRM could not read it, or none of its samples. The expectation has a closed form.
    """

    citation = "Chen et al. (2023), arXiv:2305.05176"

    to: Annotated[str, Field(min_length=1)]
    """The name in the grid of the stronger LLM."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    """In [0, 1]. The stronger LLM is asked if the probability is below, and at 0 if the PRM could not read."""
    by: Literal["answer", "question"] = "answer"
    """Whose probability decides."""
    samples: Count | None = None
    """The number of samples of the cheap LLM, at most the grid's fixed budget N. The default is N."""
    to_samples: Count | None = None
    """The number of samples of the stronger LLM, at most N. The default is N."""

    def __post_init__(self) -> None:
        self.others = (self.to,)
        self.tuned = self.by == "answer"
        self.reads = ("scores",) if self.tuned else ("scores", "rewards")

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Learn what the best score says of its answer; see :meth:`prmcal.PoolStrategy.tune`."""
        first = min(best_of.count_of("samples", self.samples, setting), pool.size)
        self.evidence_ = ScoreEvidence.fit(*_best_of_groups(pool, first))

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        own = np.array([best_of.count_of("samples", self.samples, setting)])
        other = np.array([best_of.count_of("to_samples", self.to_samples, setting)])
        stronger = pool.others[self.to]
        # Equal scores are on the same side, so a kept answer is the best-scored one that is good enough.
        good = self._good_enough(pool)
        kept = best_of.pass_at_n(good, own)[:, 0]
        escalated = np.clip(1 - kept, 0.0, 1.0)
        drawn = np.ones(pool.questions) if self.by == "answer" else kept
        theirs = best_of.best_of_n(stronger.scores, stronger.correct, other)[:, 0]
        # Where it escalates and no own sample is right, only the stronger LLM can be right.
        left = 1 - best_of.pass_at_n(good | pool.correct, own)[:, 0] if self.by == "answer" else escalated
        passed = (
            drawn * best_of.pass_at_n(pool.correct, own)[:, 0]
            + left * best_of.pass_at_n(stronger.correct, other)[:, 0]
        )
        return Answered(
            accuracy=np.minimum(
                best_of.best_of_n(pool.scores, good & pool.correct, own)[:, 0] + escalated * theirs, 1.0
            ),
            samples=drawn * own + escalated * other,
            pass_at_samples=np.minimum(passed, 1.0),
            asked=(
                Asked("", drawn, drawn * own, best_of.best_of_n(pool.scores, pool.correct, own)[:, 0]),
                Asked(self.to, escalated, escalated * other, theirs),
            ),
        )

    def most_samples(self, setting: Setting) -> int:
        """Return the most samples of a question: those of both LLMs, or of one if the bare question decides."""
        own = best_of.count_of("samples", self.samples, setting)
        other = best_of.count_of("to_samples", self.to_samples, setting)
        return own + other if self.by == "answer" else max(own, other)

    def _good_enough(self, pool: Pool) -> Bools:
        """Return for each trajectory whether it would be kept if it had the best score."""
        if self.by == "answer":
            return self.evidence_.chance(pool.scores) >= self.threshold
        return np.broadcast_to((pool.rewards >= self.threshold)[:, None], pool.correct.shape)


def _best_of_groups(pool: Pool, size: int) -> tuple[Floats, Bools]:
    """Return the best score of each group of `size` trajectories, and whether the trajectory with it is right."""
    groups = pool.size // size
    shape = (pool.questions * groups, size)
    scores = pool.scores[:, : groups * size].reshape(shape)
    correct = pool.correct[:, : groups * size].reshape(shape)
    best = np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1)
    rows = np.arange(len(scores))
    return scores[rows, best], correct[rows, best]
