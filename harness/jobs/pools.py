"""The pools of trajectories that strategies choose from, with their scores and calibrated rewards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import TUNING, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.registry.contracts.data import GIVEN, Level, Question
from prmcal.registry.contracts.pool import Pool


@dataclass(frozen=True, eq=False)
class QuestionAxis:
    """The questions along the first axis of an array, sorted by id."""

    question_ids: NDArray[Any]
    """Of shape (questions,)."""
    question_levels: NDArray[np.object_]
    """The difficulty, a number or a word; None if it is not known. Of shape (questions,), object."""

    @classmethod
    def of(cls, questions: Sequence[Question], ids: NDArray[Any]) -> Self:
        """Return the axis of the questions with these ids."""
        levels = {question.id: question.level for question in questions}
        return cls(ids, np.array([levels[question_id] for question_id in ids], dtype=object))

    @property
    def known_levels(self) -> list[Level]:
        """The levels that occur: numbers, then words."""
        levels: set[Level] = {level for level in self.question_levels if level is not None}
        return sorted(levels, key=lambda level: (0, level, "") if not isinstance(level, str) else (1, 0, level))

    def by_difficulty(self) -> list[tuple[Level | None, Bools]]:
        """Select all questions (None), then the questions of each known difficulty."""
        everything = np.ones(len(self.question_ids), dtype=bool)
        return [(None, everything), *((level, self.question_levels == level) for level in self.known_levels)]

    def table(self, values: Mapping[str, Floats]) -> pd.DataFrame:
        """Return metrics with one value for each question as a table, by their names."""
        return pd.DataFrame(
            {
                "question_id": np.tile(self.question_ids, len(values)),
                "question_level": level_column(np.tile(self.question_levels, len(values))),
                "metric": np.repeat(list(values), len(self.question_ids)),
                "value": np.concatenate(list(values.values())),
            }
        )


def level_column(levels: Sequence[Level | None] | NDArray[np.object_]) -> pd.api.extensions.ExtensionArray:
    """Return levels as a column: of whole numbers if all are, or else of texts."""
    if all(isinstance(level, int | None) for level in levels):
        return pd.array(levels, dtype="Int32")
    return pd.array([None if level is None else str(level) for level in levels], dtype="string")


@dataclass(frozen=True, eq=False)
class GradedTrajectories(QuestionAxis):
    """The trajectories of all questions as arrays. Questions are sorted by id, trajectories by index."""

    correct: Bools
    """Of shape (questions, M), bool."""
    answers: Ints | None
    """The final answers as numbers: equal if their texts are equal; -1 if there is none. Of shape (questions, M),
    int64. None if nothing was graded and nothing has an answer."""
    steps: Ints
    """T, the number of steps of each trajectory. Of shape (questions, M), int64."""
    tokens: Floats
    """Tokens that were generated for each trajectory. Of shape (questions, M), float64."""
    prompt_tokens: Floats
    """Tokens of each question's prompt; NaN where the LLM does not report them. Of shape (questions,), float64."""


def graded_trajectories(shard: Shard[Parameters], context: Context) -> GradedTrajectories:
    """Return the trajectories of the test questions that a shard reads."""
    trajectories = context.made_of(shard, "graded", "trajectories", trajectories_of)
    axis = QuestionAxis.of(context.questions(shard.parameters.data), trajectories.question_ids)
    return replace(trajectories, question_levels=axis.question_levels)


def trajectories_of(table: pd.DataFrame) -> GradedTrajectories:
    """Return the trajectories of a table, without the difficulty of the questions.

    In published data, some questions have fewer trajectories than others. Then all keep the smallest number.
    """
    fewest = int(table.groupby("question_id")["trajectory"].count().min())
    question_ids = np.sort(table["question_id"].unique())
    table = table[table["trajectory"] < fewest]
    answered = table["answer"].where(table["verdict"] != "unparsed")
    without = answered.isna().all() and (table["found_by"] == GIVEN).all()
    numbers = table[["question_id", "trajectory"]].assign(answer=answered.factorize()[0])
    prompts = table.groupby("question_id")["prompt_tokens"].max().reindex(question_ids).to_numpy(np.float64)
    return GradedTrajectories(
        question_ids=question_ids,
        question_levels=np.full(len(question_ids), None, dtype=object),
        correct=_matrix(table, "correct").to_numpy(dtype=bool),
        answers=None if without else _matrix(numbers, "answer").to_numpy(dtype=np.int64),
        steps=_matrix(table, "steps").to_numpy(dtype=np.int64),
        tokens=_matrix(table, "tokens").to_numpy(dtype=np.float64),
        prompt_tokens=np.where(prompts > 0, prompts, np.nan),
    )


def scored_tokens(shard: Shard[Parameters], context: Context, axis: QuestionAxis) -> Floats:
    """Return the mean number of tokens that the PRM reads for a trajectory of each question, of shape (questions,).

    Tokens that trajectories of a question share, such as its prompt, are counted as often as the PRM reads them.
    """
    return context.made_of(shard, "score", "scored_tokens", _mean_tokens, axis.question_ids)


def _mean_tokens(scored: pd.DataFrame, question_ids: NDArray[Any]) -> Floats:
    return np.asarray(scored.groupby("question_id")["tokens"].mean().reindex(question_ids), dtype=np.float64)


def last_scores(shard: Shard[Parameters], context: Context) -> Floats:
    """Return the PRM's logit of every whole trajectory, of shape (questions, M). NaN: too long for the PRM.

    Logits have the order of rewards, and still differ where rewards are so close to 1 that they are equal as numbers.
    """
    return context.made_of(shard, "score", "rewards", scores_of_whole)


def scores_of_whole(rewards: pd.DataFrame, trajectories: int | None = None) -> Floats:
    """Return the logit of every whole trajectory in a table of scores, or of the first ones of each question."""
    ordered = rewards.sort_values("step")
    if trajectories is not None:
        ordered = ordered[ordered["trajectory"] < trajectories]
    last_rows = ordered.drop_duplicates(["question_id", "trajectory"], keep="last")
    return np.asarray(_matrix(last_rows, "logit"), dtype=np.float64)


def _matrix(table: pd.DataFrame, column: str) -> pd.DataFrame:
    matrix = table.pivot(index="question_id", columns="trajectory", values=column)
    return matrix.sort_index(axis=0).sort_index(axis=1)


def tuning_pool(shard: Shard[Parameters], context: Context, reads: Sequence[str], level: float | None) -> Pool:
    """Return the trajectories of the calibration questions with the arrays that a strategy reads.

    The pool has all trajectories of the calibration split. Their rewards come from a calibrator that was fitted to the
    same questions.
    """
    trajectories = context.made_of(shard, f"{TUNING}graded", "trajectories", trajectories_of)
    return pool_of(shard, context, trajectories, reads, level, TUNING)


def pool_of(
    shard: Shard[Parameters],
    context: Context,
    trajectories: GradedTrajectories,
    reads: Sequence[str],
    level: float | None,
    prefix: str = "",
) -> Pool:
    """Return trajectories with the arrays that a strategy reads; see :data:`prmcal.registry.contracts.pool.READS`.

    `level` is the level beta of ``rewards``. The shard reads scores, calibrated rewards and success rates from the
    roles that begin with `prefix`.
    """

    def table(role: str, name: str, make: Callable[..., Any], *args: Any) -> Any:
        return context.made_of(shard, f"{prefix}{role}", name, make, *args)

    arrays: dict[str, Floats] = {}
    if "scores" in reads:
        arrays["scores"] = table("score", "rewards", scores_of_whole, trajectories.correct.shape[1])
    if "step_scores" in reads:
        arrays["step_scores"] = table("score", "rewards", _step_scores, trajectories)
    if "rewards" in reads and level is not None:
        at_levels = table("calibrated", "calibrated_rewards", bare_rewards, trajectories.question_ids)
        predicted = table("calibrated", "calibrated_rewards", levels_of)
        at_level = at_levels[:, np.isclose(predicted, level)]
        # Without any prefix that the PRM can read, there is no level either.
        arrays["rewards"] = at_level[:, 0] if at_level.size else np.full(len(at_level), np.nan)
    if "success" in reads:
        arrays["success"] = table("success", "successes", success_rates, trajectories)
    return Pool(trajectories.correct, trajectories.answers, **arrays)


def bare_rewards(rewards: pd.DataFrame, question_ids: NDArray[Any]) -> Floats:
    """Return the calibrated reward of each bare question at each level, of shape (questions, levels).

    Levels ascend. A reward is NaN where the question is too long for the PRM.
    """
    bare = rewards[rewards["step"] == 0]
    table = bare.groupby(["question_id", "level"])["reward"].first().unstack()
    return np.asarray(table.reindex(index=question_ids, columns=levels_of(rewards)), dtype=np.float64)


def success_rates(successes: pd.DataFrame, axis: QuestionAxis) -> Floats:
    """Return the share of correct follow-ups of each bare question of `axis`; NaN where there are none.

    `successes` has one row for each prefix and block of follow-ups. Counts at step 0 of all measured trajectories are
    summed, since the bare question is their common prefix. The follow-ups are not the trajectories of the pool, on
    which a strategy is judged.
    """
    bare = successes[successes["step"] == 0]
    sums = bare.groupby("question_id")[["successes", "follow_ups"]].sum().reindex(axis.question_ids)
    return np.asarray(sums["successes"] / sums["follow_ups"], dtype=np.float64)


def levels_of(rewards: pd.DataFrame) -> tuple[float, ...]:
    """Return the levels of a table of calibrated rewards, ascending."""
    return tuple(float(level) for level in np.unique(rewards["level"]))


def _step_scores(table: pd.DataFrame, trajectories: GradedTrajectories) -> Floats:
    """Return logits of prefixes by question, trajectory and step; NaN where there is none."""
    pool_rows = table[table["trajectory"] < trajectories.correct.shape[1]]
    rows = np.searchsorted(trajectories.question_ids, pool_rows["question_id"].to_numpy())
    steps = pool_rows["step"].to_numpy(np.int64)
    longest = int(steps.max(initial=0))
    scores = np.full((*trajectories.correct.shape, longest + 1), np.nan)
    scores[rows, pool_rows["trajectory"].to_numpy(np.int64), steps] = pool_rows["logit"].to_numpy(np.float64)
    return scores
