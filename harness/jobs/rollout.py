"""Rollout: sample whole trajectories of some questions and grade them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require, require_length
from prmcal.harness.jobs.job import Shard
from prmcal.registry.contracts.data import Completion, Prefix, Sampling, split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "compute", "draw", "typed"]

COLUMNS = [
    "question_id",
    "trajectory",
    "text",
    "steps",
    "tokens",
    "prompt_tokens",
    "finish_reason",
    "answer",
    "verdict",
    "correct",
]


def compute(shard: Shard, context: Context) -> Output:
    """The trajectories of a slice of questions, indices ``start <= trajectory < stop``."""
    import pandas as pd

    questions = context.questions(shard)
    dataset = context.dataset(shard.parameters["dataset"])
    start, stop = shard.parameters["trajectories"]
    completions = draw(shard, context, [Prefix(question.text) for question in questions], stop - start)
    rows = []
    for question, drawn in zip(questions, completions, strict=True):
        for offset, completion in enumerate(drawn):
            verdict, answer = dataset.grade(question, completion.text)
            rows.append(
                (
                    question.id,
                    start + offset,
                    completion.text,
                    len(split_steps(completion.text)),
                    completion.tokens,
                    completion.prompt_tokens,
                    completion.finish_reason,
                    answer,
                    verdict,
                    verdict == "correct",
                )
            )
    frame = typed(pd.DataFrame(rows, columns=COLUMNS))
    return Output({"trajectories": frame}, samples=len(rows), generated_tokens=int(frame["tokens"].sum()))


def typed(trajectories: pd.DataFrame) -> pd.DataFrame:
    """The same table with the types of its columns."""
    numbers = ("trajectory", "steps", "tokens", "prompt_tokens")
    return trajectories.astype({**dict.fromkeys(numbers, "int32"), "answer": "str"})


def draw(shard: Shard, context: Context, prefixes: Sequence[Prefix], n: int) -> list[list[Completion]]:
    """`n` completions of each prefix by the shard's LLM, with the shard's sampling and seed, checked."""
    if not prefixes:
        return []
    name = shard.parameters["llm"]["name"]
    given = shard.parameters["sampling"]
    sampling = Sampling(given["temperature"], given["top_p"], given["max_tokens"], tuple(given["stop"]))
    with plugin_guard("llm", name, "generate"):
        completions = context.llm(shard.parameters["llm"]).generate(
            prefixes, n, sampling, shard.parameters["seed"]
        )
        require_length(completions, len(prefixes), "lists of completions")
        for drawn in completions:
            require_length(drawn, n, "completions of a prefix")
            require(
                all(isinstance(each, Completion) and each.tokens >= 0 for each in drawn),
                "it must return Completion objects with a token count of 0 or more.",
            )
    return completions
