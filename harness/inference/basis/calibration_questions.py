"""The calibration questions with their graded and scored trajectories. What new questions show is judged by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.measurement.trajectories import last_scores, tuning_trajectories
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.reading import reading

__all__ = ["CalibrationQuestions"]

_ARRAYS = "calibration.safetensors"
_AVAILABLE: tuple[Reads, ...] = ("scores", "step_scores", "rewards", "question_rewards")


@dataclass(frozen=True, eq=False)
class CalibrationQuestions:
    """The calibration questions of one LLM and one PRM.

    Attributes
    ----------
    lengths : ndarray of shape (questions,), int64
        Characters of each question.
    correct : ndarray of shape (questions, M), bool
        Whether each trajectory is right.
    answers : ndarray of shape (questions, M), int64
        As in :class:`prmcal.Pool`.
    step_scores : ndarray of shape (questions, M, T + 1), float64
        As in :class:`prmcal.Pool`. The entry at t = 0 belongs to the bare question.
    scores : ndarray of shape (questions, M), float64
    texts : tuple of str
        The questions; empty if they are not known.
    """

    lengths: NDArray[np.int64]
    correct: NDArray[np.bool_]
    answers: NDArray[np.int64]
    step_scores: NDArray[np.float64]
    scores: NDArray[np.float64]
    texts: tuple[str, ...] = ()

    @property
    def bare_scores(self) -> NDArray[np.float64]:
        """The PRM's scores of the bare questions, of shape (questions,)."""
        return self.step_scores[:, 0, 0]

    def pool(
        self,
        reads: Sequence[Reads],
        question_rewards: NDArray[np.float64] | None,
        levels: tuple[float, ...],
        level: float | None,
    ) -> Pool:
        """Return the pool that a strategy is tuned with.

        Parameters
        ----------
        reads : sequence of str
            What the strategy reads.
        question_rewards : ndarray of shape (questions, levels), float64, or None
            Calibrated rewards of the bare questions, if it reads them.
        levels : tuple of float
        level : float or None
            The level of `rewards`.

        Raises
        ------
        PluginFailedError
            If it reads calibrated rewards of trajectories, which are not kept for calibration questions.
        """
        missing = [name for name in reads if name not in _AVAILABLE]
        if missing:
            raise PluginFailedError(
                f"It is tuned with '{missing[0]}' of the calibration questions, which are not kept. Choose another "
                "strategy."
            )
        rewards = None
        if question_rewards is not None and level is not None:
            rewards = question_rewards[:, levels.index(level) if level in levels else 0]
        return Pool(
            self.correct,
            self.answers,
            scores=self.scores,
            rewards=rewards,
            step_scores=self.step_scores,
            question_rewards=question_rewards,
            levels=levels,
        )

    @classmethod
    def of_run(cls, plan: Plan, store: Store, fit: Shard[FitParameters]) -> CalibrationQuestions:
        """Read the trajectories that a calibrator was fitted to.

        Raises
        ------
        StorageError, DataError
            If an artifact is damaged or absent.
        """
        scores = fit.inputs["score"]
        rollouts = _inputs_of(plan, scores, "rollout")
        shard: Shard[Parameters] = Shard(fit.ref, fit.parameters, {"rollout": rollouts, "score": scores})
        context = Context(store)
        graded = tuning_trajectories(shard, context, "rollout")
        size = graded.correct.shape[1]
        table = context.table(shard, "score", "rewards")
        kept = table[table["trajectory"] < size]
        rows = np.searchsorted(graded.question_ids, kept["question_id"].to_numpy())
        steps = kept["step"].to_numpy(np.int64)
        step_scores = np.full((*graded.correct.shape, int(steps.max(initial=0)) + 1), np.nan)
        step_scores[rows, kept["trajectory"].to_numpy(np.int64), steps] = kept["logit"].to_numpy(np.float64)
        texts = _texts(plan, fit)
        known = tuple(texts[each] for each in graded.question_ids)
        return cls(
            lengths=np.array([len(text) for text in known], dtype=np.int64),
            correct=graded.correct,
            answers=graded.answers,
            step_scores=step_scores,
            scores=last_scores(shard, context, "score", size),
            texts=known,
        )

    def save(self, folder: Path) -> None:
        """Write the arrays. The texts of the questions stay behind."""
        from safetensors.numpy import save_file

        arrays = {
            "lengths": self.lengths,
            "correct": self.correct.astype(np.uint8),
            "answers": self.answers,
            "step_scores": self.step_scores,
            "scores": self.scores,
        }
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / _ARRAYS)

    @classmethod
    def load(cls, folder: Path) -> CalibrationQuestions:
        """Read what ``save`` wrote.

        Raises
        ------
        DataError
            If the file is absent or damaged.
        """
        from safetensors.numpy import load_file

        with reading(f"{folder / _ARRAYS} cannot be read", "Export the calibrated PRM again."):
            arrays = load_file(folder / _ARRAYS)
            return cls(
                lengths=arrays["lengths"],
                correct=arrays["correct"].astype(bool),
                answers=arrays["answers"],
                step_scores=arrays["step_scores"],
                scores=arrays["scores"],
            )


def _inputs_of(plan: Plan, refs: Sequence[ArtifactRef], role: str) -> tuple[ArtifactRef, ...]:
    """Return the artifacts that the shards with these artifacts read under a role, each once."""
    wanted = set(refs)
    found: dict[ArtifactRef, None] = {}
    jobs: Sequence[Job[Parameters]] = plan.jobs
    for job in jobs:
        for shard in job.shards:
            if shard.ref in wanted:
                found |= dict.fromkeys(shard.inputs[role])
    return tuple(found)


def _texts(plan: Plan, fit: Shard[FitParameters]) -> dict[str, str]:
    data = fit.parameters.data
    for each in plan.datasets:
        if (each.name, each.split) == (data.dataset.name, data.split):
            return {question.id: question.text for question in each.questions}
    return {}
