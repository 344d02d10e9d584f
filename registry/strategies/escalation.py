"""Routing: a cheap LLM answers where its answer is likely right, and a stronger one answers the other questions."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.strategy import Answered, Asked, PoolStrategy, Setting
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.exact import best_of_n, pass_at_n
from prmcal.registry.strategies.fixed import count_of

__all__ = ["Escalation"]


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

    Parameters
    ----------
    to : str
        The name in the grid of the stronger LLM.
    threshold : float in [0, 1], default=0.5
        The stronger LLM is asked if the probability is below it. At 0 it is asked only if the PRM could not read.
    by : {"answer", "question"}, default="answer"
        Whose probability decides.
    samples : int, optional
        The number of samples of the cheap LLM, at most the grid's fixed budget N. The default is N.
    to_samples : int, optional
        The number of samples of the stronger LLM, at most N. The default is N.
    """

    citation = "Chen et al. (2023), arXiv:2305.05176"

    def __init__(
        self,
        to: Annotated[str, Field(min_length=1)],
        threshold: Annotated[float, Field(ge=0, le=1)] = 0.5,
        by: Literal["answer", "question"] = "answer",
        samples: Count | None = None,
        to_samples: Count | None = None,
    ) -> None:
        self.to = to
        self.threshold = threshold
        self.by = by
        self.samples = samples
        self.to_samples = to_samples
        self.others = (to,)
        self.tuned = by == "answer"
        self.reads = ("scores",) if by == "answer" else ("scores", "rewards")

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Learn what the best score says of its answer; see :meth:`prmcal.PoolStrategy.tune`."""
        first = min(count_of("samples", self.samples, setting), pool.size)
        self.evidence_ = ScoreEvidence.fit(*_best_of_groups(pool, first))

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        own = np.array([count_of("samples", self.samples, setting)])
        other = np.array([count_of("to_samples", self.to_samples, setting)])
        stronger = pool.others[self.to]
        # Equal scores are on the same side, so a kept answer is the best-scored one that is good enough.
        good = self._good_enough(pool)
        kept = pass_at_n(good, own)[:, 0]
        escalated = np.clip(1 - kept, 0.0, 1.0)
        drawn = np.ones(pool.questions) if self.by == "answer" else kept
        theirs = best_of_n(stronger.scores, stronger.correct, other)[:, 0]
        # Where it escalates and no own sample is right, only the stronger LLM can be right.
        left = 1 - pass_at_n(good | pool.correct, own)[:, 0] if self.by == "answer" else escalated
        passed = drawn * pass_at_n(pool.correct, own)[:, 0] + left * pass_at_n(stronger.correct, other)[:, 0]
        return Answered(
            accuracy=np.minimum(
                best_of_n(pool.scores, good & pool.correct, own)[:, 0] + escalated * theirs, 1.0
            ),
            samples=drawn * own + escalated * other,
            pass_at_samples=np.minimum(passed, 1.0),
            asked=(
                Asked("", drawn, drawn * own, best_of_n(pool.scores, pool.correct, own)[:, 0]),
                Asked(self.to, escalated, escalated * other, theirs),
            ),
        )

    def most_samples(self, setting: Setting) -> int:
        """Return the most samples of a question: those of both LLMs, or of one if the bare question decides."""
        own = count_of("samples", self.samples, setting)
        other = count_of("to_samples", self.to_samples, setting)
        return own + other if self.by == "answer" else max(own, other)

    def _good_enough(self, pool: Pool) -> NDArray[np.bool_]:
        """Whether each trajectory would be kept if it had the best score."""
        if self.by == "answer":
            return self.evidence_.chance(pool.scores) >= self.threshold
        return np.broadcast_to((pool.rewards >= self.threshold)[:, None], pool.correct.shape)


def _best_of_groups(pool: Pool, size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the best score of each group of `size` trajectories, and whether the trajectory with it is right."""
    groups = pool.size // size
    shape = (pool.questions * groups, size)
    scores = pool.scores[:, : groups * size].reshape(shape)
    correct = pool.correct[:, : groups * size].reshape(shape)
    best = np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1)
    rows = np.arange(len(scores))
    return scores[rows, best], correct[rows, best]
