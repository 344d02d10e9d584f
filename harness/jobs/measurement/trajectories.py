"""What the measuring jobs read of trajectories, as arrays: grades, answers, tokens and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.registry.contracts.data import Question

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "GradedTrajectories",
    "QuestionAxis",
    "graded_trajectories",
    "last_scores",
    "require_same_questions",
    "scored_tokens",
    "scores_of_whole",
    "trajectories_of",
    "tuning_trajectories",
]


@dataclass(frozen=True, eq=False)
class QuestionAxis:
    """The questions along the first axis of an array, sorted by id.

    Attributes
    ----------
    question_ids : ndarray of shape (questions,)
    question_levels : ndarray of shape (questions,), float64
        Difficulty from 1 to 5; NaN where it is not known.
    """

    question_ids: NDArray[Any]
    question_levels: NDArray[np.float64]

    @classmethod
    def of(cls, questions: Sequence[Question], ids: NDArray[Any]) -> QuestionAxis:
        """Return the axis of the questions with these ids."""
        levels = {question.id: question.level for question in questions}
        known = [np.nan if levels[each] is None else levels[each] for each in ids]
        return cls(ids, np.array(known, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class GradedTrajectories(QuestionAxis):
    """The trajectories of all questions as arrays. Questions are sorted by id, trajectories by index.

    Attributes
    ----------
    correct : ndarray of shape (questions, M), bool
    answers : ndarray of shape (questions, M), int64
        The final answers as numbers: equal if their texts are equal; -1 if there is none.
    steps : ndarray of shape (questions, M), int64
        T, the number of steps of each trajectory.
    tokens : ndarray of shape (questions, M), float64
        Tokens that were generated for each trajectory.
    prompt_tokens : ndarray of shape (questions,), float64
        Tokens of each question's prompt; NaN where the LLM does not report them.
    """

    correct: NDArray[np.bool_]
    answers: NDArray[np.int64]
    steps: NDArray[np.int64]
    tokens: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]


def graded_trajectories(
    shard: Shard[Parameters], context: Context, role: str = "rollout"
) -> GradedTrajectories:
    """Return the trajectories of the test questions that a shard reads under this role."""
    found = context.made_of(shard, role, "trajectories", _complete_trajectories_of)
    axis = QuestionAxis.of(context.questions(shard.parameters.data), found.question_ids)
    return replace(found, question_levels=axis.question_levels)


def tuning_trajectories(shard: Shard[Parameters], context: Context, role: str) -> GradedTrajectories:
    """Return the trajectories of the calibration questions that a shard reads under this role."""
    return context.made_of(shard, role, "trajectories", trajectories_of)


def _complete_trajectories_of(table: pd.DataFrame) -> GradedTrajectories:
    if table.groupby("question_id")["trajectory"].count().nunique() > 1:
        raise DataError(
            "Some questions have fewer trajectories than others. Delete the output folder and run again."
        )
    return trajectories_of(table)


def trajectories_of(table: pd.DataFrame) -> GradedTrajectories:
    """Return the trajectories of a table, without the difficulty of the questions.

    In published data, some questions have fewer trajectories than others. Then each has as many as the fewest.
    """
    fewest = int(table.groupby("question_id")["trajectory"].count().min())
    ids = np.sort(table["question_id"].unique())
    return _graded(table[table["trajectory"] < fewest], ids)


def require_same_questions(llm: str, theirs: QuestionAxis, own: QuestionAxis) -> None:
    """Raise a DataError unless another LLM, with this name, has trajectories of the same questions.

    In published data every LLM may have questions of its own.
    """
    if not np.array_equal(theirs.question_ids, own.question_ids):
        raise DataError(
            f"The trajectories of the LLM '{llm}' belong to other questions, so no strategy can choose between the two "
            "LLMs. Calibrate on a data set that is sampled, or on questions that were published for both."
        )


def _graded(table: pd.DataFrame, question_ids: NDArray[Any]) -> GradedTrajectories:
    answered = table["answer"].where(table["verdict"] != "unparsed")
    numbers = table[["question_id", "trajectory"]].assign(answer=answered.factorize()[0])
    return GradedTrajectories(
        question_ids=question_ids,
        question_levels=np.full(len(question_ids), np.nan),
        correct=_matrix(table, "correct").to_numpy(dtype=bool),
        answers=_matrix(numbers, "answer").to_numpy(dtype=np.int64),
        steps=_matrix(table, "steps").to_numpy(dtype=np.int64),
        tokens=_matrix(table, "tokens").to_numpy(dtype=np.float64),
        prompt_tokens=_prompt_tokens(table, question_ids),
    )


def _prompt_tokens(table: pd.DataFrame, question_ids: NDArray[Any]) -> NDArray[np.float64]:
    prompts = table.groupby("question_id")["prompt_tokens"].max()
    tokens: NDArray[np.float64] = prompts.reindex(question_ids).to_numpy(np.float64)
    return np.where(tokens > 0, tokens, np.nan)


def scored_tokens(
    shard: Shard[Parameters], context: Context, axis: QuestionAxis, role: str = "score"
) -> NDArray[np.float64]:
    """Return the mean number of tokens that the PRM reads for a trajectory of each question, of shape (questions,).

    Tokens that trajectories of a question share, such as its prompt, are counted as often as the PRM reads them.
    """
    return context.made_of(shard, role, "scored_tokens", _mean_tokens, axis.question_ids)


def _mean_tokens(read: pd.DataFrame, question_ids: NDArray[Any]) -> NDArray[np.float64]:
    means = read.groupby("question_id")["tokens"].mean()
    tokens: NDArray[np.float64] = means.reindex(question_ids).to_numpy(np.float64)
    return tokens


def last_scores(
    shard: Shard[Parameters], context: Context, role: str = "score", trajectories: int | None = None
) -> NDArray[np.float64]:
    """Return the PRM's logit of every whole trajectory, of shape (questions, M). NaN: too long for the PRM.

    Logits have the same order as rewards, except where rewards are so close to 1 that they are equal as numbers.

    Parameters
    ----------
    role : str
        The input with the scores.
    trajectories : int, optional
        How many trajectories of each question to return; by default all.
    """
    return context.made_of(shard, role, "rewards", scores_of_whole, trajectories)


def scores_of_whole(rewards: pd.DataFrame, trajectories: int | None = None) -> NDArray[np.float64]:
    """Return the logit of every whole trajectory in a table of scores; see :func:`last_scores`."""
    ordered = rewards.sort_values("step")
    if trajectories is not None:
        ordered = ordered[ordered["trajectory"] < trajectories]
    whole = ordered.drop_duplicates(["question_id", "trajectory"], keep="last")
    scores: NDArray[np.float64] = _matrix(whole, "logit").to_numpy(dtype=np.float64)
    return scores


def _matrix(table: pd.DataFrame, column: str) -> pd.DataFrame:
    matrix = table.pivot(index="question_id", columns="trajectory", values=column)
    return matrix.sort_index(axis=0).sort_index(axis=1)
