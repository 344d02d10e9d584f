"""The calibration questions with their graded and scored trajectories, by which new questions are judged.

They give the probability that an answer is right, and show if a new question is unlike them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import PluginFailedError
from prmcal.harness.inference.results import Familiarity, Place
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from prmcal.harness.jobs.pools import pool_of, tables_from, tuning_trajectories
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.messages import reading
from prmcal.registry.strategies.posterior_vote import PosteriorVote

_ARRAYS = "calibration.safetensors"
_NAMES = ("lengths", "correct", "answers", "step_scores", "scores")
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
        tables = tables_from(partial(context.table, shard))
        pool = pool_of(graded, tables, ("scores", "step_scores"), None)
        texts = _texts(plan, fit)
        known = tuple(texts[each] for each in graded.question_ids)
        lengths = np.array([len(text) for text in known], dtype=np.int64)
        return cls(lengths, graded.correct, graded.answers, pool.step_scores, pool.scores, known)

    def save(self, folder: Path) -> None:
        """Write the arrays. The texts of the questions stay behind."""
        from safetensors.numpy import save_file

        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _NAMES}
        save_file(arrays | {"correct": self.correct.astype(np.uint8)}, folder / _ARRAYS)

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
            lengths, correct, answers, step_scores, scores = (arrays[name] for name in _NAMES)
            return cls(lengths, correct.astype(bool), answers, step_scores, scores)


def _inputs_of(plan: Plan, refs: Sequence[ArtifactRef], role: str) -> tuple[ArtifactRef, ...]:
    """Return the artifacts that the shards with these artifacts read under a role, each once."""
    wanted = set(refs)
    read = (ref for shard in plan.shards() if shard.ref in wanted for ref in shard.inputs[role])
    return tuple(dict.fromkeys(read))


def _texts(plan: Plan, fit: Shard[FitParameters]) -> dict[str, str]:
    data = fit.parameters.data
    for each in plan.datasets:
        if (each.name, each.split) == (data.dataset.name, data.split):
            return {question.id: question.text for question in each.questions}
    return {}


_UNKNOWN = Familiarity(
    familiar=True,
    message="The calibration questions are not known here, so nothing is known of how usual this question is.",
)


def familiarity_of(
    known: CalibrationQuestions | None, question: str, bare_score: float, scores: NDArray[np.float64]
) -> Familiarity:
    """Compare a question with the calibration questions.

    It is unfamiliar if one of its values lies outside the range of all calibration questions. A new question of the
    same kind lies outside the range of m calibration questions with probability 2 / (m + 1) for each value.

    Parameters
    ----------
    known : CalibrationQuestions or None
        None if they are not known. Then it counts as familiar, with a message.
    question : str
    bare_score : float
        The PRM's log-odds of the bare question.
    scores : ndarray of shape (drawn,), float64
        The PRM's log-odds of the whole trajectories that were drawn. The first ones are compared, as many as a
        calibration question has.
    """
    if known is None:
        return _UNKNOWN
    places = [
        _place(
            "length of the question in characters", float(len(question)), known.lengths.astype(np.float64)
        ),
        _place("reward of the bare question", float(expit(bare_score)), expit(known.bare_scores)),
    ]
    first = scores[: known.scores.shape[1]]
    if np.isfinite(first).any():
        # A mean over fewer trajectories varies more, so calibration questions have as many.
        size = int(np.isfinite(first).sum())
        usual = np.nanmean(expit(known.scores[:, :size]), axis=1)
        places.append(_place("mean reward of the trajectories", float(np.nanmean(expit(first))), usual))
    unusual = [each for each in places if not each.lowest <= each.value <= each.highest]
    return Familiarity(not unusual, tuple(places), _message(unusual, len(known.lengths)))


def _place(what: str, value: float, known: NDArray[np.float64]) -> Place:
    usual = known[np.isfinite(known)]
    below = float(np.mean(usual < value) + np.mean(usual == value) / 2)
    return Place(what, value, below, float(usual.min()), float(usual.max()))


def _message(unusual: list[Place], questions: int) -> str:
    if not unusual:
        return ""
    parts = [
        f"the {each.what} is {_number(each.value)}, "
        f"{'lower' if each.value < each.lowest else 'higher'} than for all {questions} calibration questions "
        f"({_number(each.lowest)} to {_number(each.highest)})"
        for each in unusual
    ]
    return f"This question is unlike the calibration questions: {'; '.join(parts)}."


def _number(value: float) -> str:
    return f"{value:,.0f}" if value > 1 or value == 0 else f"{value:.3g}"


_REPLICATES = 100
_SEED = 0


@dataclass(frozen=True, slots=True)
class Chance:
    """The probability that an answer is right, with its 95% interval. All are in [0, 1]."""

    probability: float
    low: float
    high: float


class AnswerChances:
    """The law by which answers are judged, fitted to the calibration questions.

    It is that of the strategy `posterior vote`: the scores of all trajectories and their votes give the probability
    that each answer is right. It holds for trajectories that were drawn independently. That a strategy stops when it is
    sure does no harm: given the trajectories, the posterior does not depend on when one stops.

    The interval says how well the law is known from so many calibration questions: the law is fitted again to
    resamples of the questions, and the middle 95% of the probabilities are kept. It does not say what happens to
    questions of another kind.

    Parameters
    ----------
    calibration : Pool
        The trajectories of the calibration questions with their scores.
    """

    def __init__(self, calibration: Pool) -> None:
        self._vote = PosteriorVote()
        self._vote.tune(calibration, Setting(calibration.size))
        random = np.random.default_rng(_SEED)
        self._others = []
        for _ in range(_REPLICATES):
            drawn = random.integers(0, calibration.questions, calibration.questions)
            again = PosteriorVote()
            again.fit_laws(calibration.drawn(drawn, slice(None)))
            again.agreement_ = self._vote.agreement_
            self._others.append(again)

    def of(self, scores: NDArray[np.float64], answers: NDArray[np.int64], answer: int) -> Chance:
        """Return the probability that an answer is right.

        Parameters
        ----------
        scores : ndarray of shape (drawn,), float64
            Log-odds of the whole trajectories; NaN if one is too long for the PRM.
        answers : ndarray of shape (drawn,), int64
            Their answers as numbers from 0; -1 for none.
        answer : int
            One of them, not -1.
        """
        own = float(self._vote.chances(scores, answers)[answer])
        others = [float(each.chances(scores, answers)[answer]) for each in self._others]
        low, high = np.quantile(others, [0.025, 0.975])
        return Chance(own, min(float(low), own), max(float(high), own))
