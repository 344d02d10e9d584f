"""What the measuring jobs share: the pool of a rollout as arrays, and metrics as tables with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, Metric, QuestionMean, estimate
from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.storage.keys import content_key
from prmcal.registry.contracts.data import Question

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "QuestionPlaces",
    "QuestionPool",
    "bootstrap_of",
    "last_scores",
    "measured",
    "pool_of",
    "question_output",
    "scored_tokens",
]


@dataclass(frozen=True, eq=False)
class QuestionPlaces:
    """Which questions a value stands for, in the order of their ids.

    Attributes
    ----------
    question_ids : ndarray of shape (questions,)
    question_levels : ndarray of shape (questions,), float64
        Difficulty 1 to 5; NaN where it is not known.
    """

    question_ids: NDArray[Any]
    question_levels: NDArray[np.float64]

    @classmethod
    def of(cls, questions: Sequence[Question], ids: NDArray[Any]) -> QuestionPlaces:
        """The places of some of the questions, by their ids."""
        levels = {question.id: question.level for question in questions}
        known = [np.nan if levels[each] is None else levels[each] for each in ids]
        return cls(ids, np.array(known, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class QuestionPool(QuestionPlaces):
    """The trajectories of all questions as arrays, questions and trajectories in the order of their ids.

    Attributes
    ----------
    correct : ndarray of shape (questions, M), bool
    answers : ndarray of shape (questions, M), int64
        The final answers as numbers: equal where their texts are, -1 where there is none.
    tokens : ndarray of shape (questions, M), float64
        Tokens generated for each.
    prompt_tokens : ndarray of shape (questions,), float64
        Tokens of each question's prompt; NaN where the LLM does not tell.
    """

    correct: NDArray[np.bool_]
    answers: NDArray[np.int64]
    tokens: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]


def pool_of(shard: Shard, context: Context) -> QuestionPool:
    """The graded trajectories of a shard's rollout."""
    table = context.table(shard, "rollout", "trajectories")
    correct = _matrix(table, "correct")
    ids = correct.index.to_numpy()
    answered = table["answer"].where(table["verdict"] != "unparsed")
    numbers = table[["question_id", "trajectory"]].assign(answer=answered.factorize()[0])
    return QuestionPool(
        question_ids=ids,
        question_levels=QuestionPlaces.of(context.questions(shard), ids).question_levels,
        correct=correct.to_numpy(dtype=bool),
        answers=_matrix(numbers, "answer").to_numpy(dtype=np.int64),
        tokens=_matrix(table, "tokens").to_numpy(dtype=np.float64),
        prompt_tokens=_prompt_tokens(table, ids),
    )


def _prompt_tokens(table: pd.DataFrame, question_ids: NDArray[Any]) -> NDArray[np.float64]:
    prompts = table.groupby("question_id")["prompt_tokens"].max()
    tokens: NDArray[np.float64] = prompts.reindex(question_ids).to_numpy(np.float64)
    return np.where(tokens > 0, tokens, np.nan)


def scored_tokens(shard: Shard, context: Context, pool: QuestionPool) -> NDArray[np.float64]:
    """Mean tokens that the PRM reads for a trajectory of each question, shape (questions,).

    Tokens that the trajectories of a question share, such as its prompt, are counted once where the PRM reads
    them once.
    """
    read = context.table(shard, "score", "scored_tokens")
    means = read.groupby("question_id")["tokens"].mean()
    tokens: NDArray[np.float64] = means.reindex(pool.question_ids).to_numpy(np.float64)
    return tokens


def last_scores(shard: Shard, context: Context) -> NDArray[np.float64]:
    """The PRM's logit of every whole trajectory, shape (questions, M), ordered as in the pool.

    Logits rank as rewards do, but for rewards so near to 1 that they are equal as numbers. NaN: over-long.
    """
    rewards = context.table(shard, "score", "rewards").sort_values("step")
    whole = rewards.drop_duplicates(["question_id", "trajectory"], keep="last")
    scores: NDArray[np.float64] = _matrix(whole, "logit").to_numpy(dtype=np.float64)
    return scores


def bootstrap_of(shard: Shard) -> Bootstrap:
    """The shard's resampling of questions, the same for all cells of a data set."""
    given = shard.parameters["bootstrap"]
    return Bootstrap(replicates=given["replicates"], seed=given["seed"])


def measured(
    metrics: Mapping[str, Metric],
    bootstrap: Bootstrap,
    by_level: Mapping[int, Mapping[str, Metric]] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Metrics with their 95% intervals, in all and by difficulty, and the bootstrap replicates of those in all.

    The replicates are kept because two cells of a data set are resampled alike: their paired difference is the
    difference of their replicates. `resampled` is the key of the questions that they were drawn from.
    """
    import pandas as pd

    groups: list[tuple[int | None, Mapping[str, Metric]]] = [(None, metrics), *(by_level or {}).items()]
    estimates = {
        (level, name): estimate(metric, bootstrap)
        for level, group in groups
        for name, metric in group.items()
    }
    results = pd.DataFrame(
        {
            "metric": [name for _, name in estimates],
            "question_level": pd.array([level for level, _ in estimates], dtype="Int32"),
            **{
                column: [getattr(each, column) for each in estimates.values()]
                for column in ("value", "low", "high", "rows", "questions")
            },
        }
    ).astype({"rows": "int32", "questions": "int32"})
    drawn = {name: estimates[None, name].replicates for name in metrics}
    counts = [len(values) for values in drawn.values()]
    resampled = [content_key(metric.question_ids.tolist()) for metric in metrics.values()]
    replicates = pd.DataFrame(
        {
            "metric": np.repeat(list(drawn), counts),
            "resampled": np.repeat(resampled, counts),
            "replicate": np.concatenate([np.arange(count) for count in counts]),
            "value": np.concatenate(list(drawn.values())),
        }
    )
    return results, replicates


def question_output(
    shard: Shard, pool: QuestionPlaces, values: Mapping[str, NDArray[np.float64]], rows: int
) -> Output:
    """The output of a job that has one value per question and metric: in all, by level, and by question.

    Parameters
    ----------
    values : mapping of str to ndarray of shape (questions,)
    rows : int
        Trajectories that a question's value rests on.
    """
    import pandas as pd

    bootstrap = bootstrap_of(shard)

    def metrics(chosen: NDArray[np.bool_]) -> dict[str, Metric]:
        return {
            name: QuestionMean(value[chosen], pool.question_ids[chosen]) for name, value in values.items()
        }

    everywhere = np.ones(len(pool.question_ids), dtype=bool)
    known = [level for level in np.unique(pool.question_levels) if not np.isnan(level)]
    by_level = {int(level): metrics(pool.question_levels == level) for level in known}
    results, replicates = measured(metrics(everywhere), bootstrap, by_level)
    results["rows"] = (results["questions"] * rows).astype("int32")
    by_question = pd.DataFrame(
        {
            "question_id": np.tile(pool.question_ids, len(values)),
            "question_level": pd.array(np.tile(pool.question_levels, len(values))).astype("Int32"),
            "metric": np.repeat(list(values), len(pool.question_ids)),
            "value": np.concatenate(list(values.values())),
        }
    )
    return Output({"results": results, "question_results": by_question, "replicates": replicates})


def _matrix(table: pd.DataFrame, column: str) -> pd.DataFrame:
    matrix = table.pivot(index="question_id", columns="trajectory", values=column)
    if matrix.isna().any(axis=None) and column == "correct":
        raise DataError(
            "Some questions have fewer trajectories than others. Delete the output folder and run again."
        )
    return matrix.sort_index(axis=0).sort_index(axis=1)
