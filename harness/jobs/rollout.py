"""Rollout: sample whole trajectories of some questions and grade them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import GeneratingParameters, RolloutParameters
from prmcal.harness.jobs.plugin_calls import check_completions, in_steps, plugin_guard, require_length
from prmcal.registry.contracts.data import Completion, Prefix
from prmcal.registry.network import patiently
from prmcal.steps import split_steps

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


def compute(shard: Shard[RolloutParameters], context: Context) -> Output:
    """Return the graded trajectories of a slice of questions."""
    import pandas as pd

    data, trajectories = shard.parameters.data, shard.parameters.trajectories
    questions = context.questions(data)
    completions = draw(shard, context, [Prefix(question.text) for question in questions], len(trajectories))
    rows = []
    for question, drawn in zip(questions, completions, strict=True):
        for number, completion in zip(trajectories, drawn, strict=True):
            verdict, answer = context.grade(data.dataset, question, completion.text)
            rows.append(
                (
                    question.id,
                    number,
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
    """Return the same table with the types that its columns must have."""
    numbers = ("trajectory", "steps", "tokens", "prompt_tokens")
    return trajectories.astype({**dict.fromkeys(numbers, "int32"), "answer": "str"})


def draw(
    shard: Shard[GeneratingParameters], context: Context, prefixes: Sequence[Prefix], n: int
) -> list[list[Completion]]:
    """Sample `n` completions of each prefix with the LLM, the sampling and the seed of a shard, and check them.

    Their steps are those of the LLM's own splitting.
    """
    if not prefixes:
        return []
    parameters = shard.parameters
    with plugin_guard("llm", parameters.llm.name, "generate"):
        llm = context.llm(parameters.llm)
        completions = patiently(llm, lambda: llm.generate(prefixes, n, parameters.sampling, shard.seed))
        require_length(completions, len(prefixes), "lists of completions")
        for drawn in completions:
            check_completions(drawn, n)
        return [in_steps(llm, prefix, drawn) for prefix, drawn in zip(prefixes, completions, strict=True)]
