"""The calibration questions with their graded and scored trajectories, by which new questions are judged.

They give the probability that an answer is right, and show if a new question is unlike them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from scipy.special import expit

from prmcal.arrays import Floats, Ints
from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import PluginFailedError
from prmcal.harness.inference.results import Familiarity
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from prmcal.harness.jobs.pools import pool_of, tables_from, tuning_trajectories
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.messages import reading
from prmcal.registry.strategies.posterior_vote import PosteriorVote

_ARRAYS = "calibration.safetensors"
_KEPT: tuple[Reads, ...] = ("scores", "step_scores")

LENGTH = "length of the question in characters"
BARE = "reward of the bare question"
FIRST = "reward of the first trajectory"
OUTCOME = "outcome of the first trajectory minus its reward"
"""The values by which an alarm compares new questions with the calibration questions."""


@dataclass(frozen=True, eq=False)
class CalibrationQuestions:
    """The calibration questions of one LLM and one PRM."""

    pool: Pool
    """Their trajectories, with `scores` and `step_scores`."""
    lengths: Ints
    """Characters of each question. Of shape (questions,), int64."""
    texts: tuple[str, ...] = ()
    """The questions; empty if they are not known."""

    def tuning_pool(
        self,
        reads: Sequence[Reads],
        question_rewards: Floats | None,
        levels: tuple[float, ...],
        level: float | None,
    ) -> Pool:
        """Return the pool that a strategy is tuned with.

        `question_rewards`, of shape (questions, levels), are the calibrated rewards of the bare questions, if it reads
        them, and `level` is that of `rewards`. Raise PluginFailedError if it reads calibrated rewards of trajectories,
        which are not kept for calibration questions.
        """
        missing = [name for name in reads if name not in (*_KEPT, "rewards", "question_rewards")]
        if missing:
            raise PluginFailedError(
                f"It is tuned with '{missing[0]}' of the calibration questions, which are not kept. Choose another "
                "strategy."
            )
        rewards = None
        if question_rewards is not None and level is not None:
            rewards = question_rewards[:, levels.index(level)]
        return Pool(
            self.pool.correct,
            self.pool.answers,
            scores=self.pool.scores,
            rewards=rewards,
            step_scores=self.pool.step_scores,
            question_rewards=question_rewards,
            levels=levels,
        )

    @classmethod
    def of_run(cls, plan: Plan, store: Store, fit: Shard[FitParameters]) -> Self:
        """Read the trajectories that a calibrator was fitted to. Raise PrmcalError if one is damaged or absent."""
        scores = fit.inputs["score"]
        rollouts = tuple(
            dict.fromkeys(
                ref for shard in plan.shards() if shard.ref in scores for ref in shard.inputs["rollout"]
            )
        )
        shard: Shard[Parameters] = Shard(fit.ref, fit.parameters, {"rollout": rollouts, "score": scores})
        context = Context(store)
        graded = tuning_trajectories(shard, context, "rollout")
        pool = pool_of(graded, tables_from(partial(context.table, shard)), _KEPT, None)
        data = fit.parameters.data
        texts = {
            question.id: question.text
            for each in plan.datasets
            if (each.name, each.split) == (data.dataset.name, data.split)
            for question in each.questions
        }
        known = tuple(texts[each] for each in graded.question_ids)
        return cls(pool, np.array([len(text) for text in known], dtype=np.int64), known)

    def alarm(self) -> ShiftAlarm:
        """Return an alarm for new questions with the values of :attr:`Familiarity.values`."""
        first = expit(self.pool.scores[:, 0])
        return ShiftAlarm(
            {
                LENGTH: self.lengths.astype(np.float64),
                BARE: expit(self.pool.step_scores[:, 0, 0]),
                FIRST: first,
                OUTCOME: self.pool.correct[:, 0] - first,
            }
        )

    def save(self, folder: Path) -> None:
        """Write the arrays. The texts of the questions stay behind."""
        from safetensors.numpy import save_file

        pool = self.pool
        arrays = {"answers": pool.answers, "scores": pool.scores, "step_scores": pool.step_scores}
        arrays |= {"lengths": self.lengths, "correct": pool.correct.astype(np.uint8)}
        save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, folder / _ARRAYS)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote. Raise DataError if the file is absent or damaged."""
        from safetensors.numpy import load_file

        with reading(f"{folder / _ARRAYS} cannot be read", "Export the calibrated PRM again."):
            arrays = load_file(folder / _ARRAYS)
            pool = Pool(
                arrays["correct"].astype(bool),
                arrays["answers"],
                scores=arrays["scores"],
                step_scores=arrays["step_scores"],
            )
            return cls(pool, arrays["lengths"])


def familiarity_of(
    known: CalibrationQuestions | None,
    question: str,
    bare_score: float,
    scores: Floats,
    right: bool | None = None,
) -> Familiarity:
    """Compare a question with the calibration questions; without them, it counts as familiar, with a message.

    It is unfamiliar if one of its values lies outside the range of all calibration questions. A new question of the
    same kind lies outside the range of m calibration questions with probability 2 / (m + 1) for each value.

    `bare_score` is the PRM's log-odds of the bare question. `scores`, of shape (drawn,), are those of the whole
    trajectories that were drawn. The first ones are compared, as many as a calibration question has. `right` says if
    the first one is right; None if nobody knows.
    """
    if known is None:
        return Familiarity(
            True, "The calibration questions are not known here, so no question counts as unusual."
        )
    bare = float(expit(bare_score))
    values: dict[str, tuple[float, Floats]] = {
        LENGTH: (len(question), known.lengths.astype(np.float64)),
        BARE: (bare, expit(known.pool.step_scores[:, 0, 0])),
    }
    compared: dict[str, float] = {LENGTH: len(question), BARE: bare}
    if len(scores) and np.isfinite(scores[0]):
        compared[FIRST] = float(expit(scores[0]))
        if right is not None:
            compared[OUTCOME] = right - compared[FIRST]
    first = scores[: known.pool.size]
    size = int(np.isfinite(first).sum())
    if size:
        # A mean over fewer trajectories varies more, so calibration questions have as many.
        usual = np.nanmean(expit(known.pool.scores[:, :size]), axis=1)
        values["mean reward of the trajectories"] = float(np.nanmean(expit(first))), usual
    unusual = []
    for what, (value, theirs) in values.items():
        low, high = np.nanmin(theirs), np.nanmax(theirs)
        if not low <= value <= high:
            shown = [f"{each:,.0f}" if each > 1 else f"{each:.3g}" for each in (value, low, high)]
            unusual.append(f"the {what} is {shown[0]} (theirs: {shown[1]} to {shown[2]})")
    if not unusual:
        return Familiarity(True, values=compared)
    message = f"This question is unlike the calibration questions: {'; '.join(unusual)}."
    return Familiarity(False, message, compared)


class AnswerChances:
    """The law by which answers are judged, fitted to the calibration questions.

    It is that of the strategy `posterior vote`: the scores of all trajectories and their votes give the probability
    that each answer is right. It holds for trajectories that were drawn independently. That a strategy stops when it is
    sure does no harm: given the trajectories, the posterior does not depend on when one stops.

    The interval says how well the law is known from so many calibration questions: the law is fitted again to
    resamples of the questions, and the middle 95% of the probabilities are kept. It does not say what happens to
    questions of another kind.

    `calibration` has the trajectories of the calibration questions with their scores.
    """

    def __init__(self, calibration: Pool) -> None:
        self._vote = PosteriorVote()
        self._vote.tune(calibration, Setting(calibration.size))
        random = np.random.default_rng(0)
        self._others = []
        for _ in range(100):
            drawn = random.integers(0, calibration.questions, calibration.questions)
            again = PosteriorVote()
            again.fit_laws(calibration.drawn(drawn, slice(None)))
            again.agreement_ = self._vote.agreement_
            self._others.append(again)

    def of(self, scores: Floats, answers: Ints, answer: int) -> tuple[float, float, float]:
        """Return the probability that an answer is right, and the ends of its 95% interval.

        `scores` are log-odds of the whole trajectories, NaN if one is too long for the PRM, and `answers` their answers
        as numbers from 0, -1 for none. Both have the shape (drawn,). `answer` is one of the answers, not -1.
        """
        own, *others = (float(each.chances(scores, answers)[answer]) for each in (self._vote, *self._others))
        low, high = np.quantile(others, [0.025, 0.975])
        return own, min(float(low), own), max(float(high), own)
