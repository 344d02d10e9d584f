"""Rollout: sample whole trajectories of some questions and grade them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require, require_length
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import GeneratingParameters, RolloutParameters
from prmcal.registry.contracts.data import Completion, FinishReason, Prefix
from prmcal.registry.excerpts import shown
from prmcal.registry.network import patiently
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "check_completions", "compute", "draw", "typed"]

_MOST_TOKENS = 2**31 - 1

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
    """Sample `n` completions of each prefix with the LLM, the sampling and the seed of a shard, and check them."""
    if not prefixes:
        return []
    parameters = shard.parameters
    with plugin_guard("llm", parameters.llm.name, "generate"):
        llm = context.llm(parameters.llm)
        completions = patiently(llm, lambda: llm.generate(prefixes, n, parameters.sampling, shard.seed))
        require_length(completions, len(prefixes), "lists of completions")
        for drawn in completions:
            check_completions(drawn, n)
    return completions


def check_completions(drawn: Any, n: int) -> None:
    """Raise a PluginFailedError unless these are `n` completions of a prefix that can be stored."""
    require_length(drawn, n, "completions of a prefix")
    for each in drawn:
        require(
            isinstance(each, Completion) and isinstance(each.text, str),
            f"it must return Completion objects with a text. Got {shown(each)}.",
        )
        require(
            0 <= each.tokens <= _MOST_TOKENS and 0 <= each.prompt_tokens <= _MOST_TOKENS,
            f"it must return token counts in [0, {_MOST_TOKENS}]. Got {shown((each.tokens, each.prompt_tokens))}.",
        )
        require(
            each.finish_reason in get_args(FinishReason),
            f"its finish reason must be {', '.join(get_args(FinishReason))}. Got {shown(each.finish_reason)}.",
        )
    "".join(each.text for each in drawn).encode()  # Half of a surrogate pair raises an error.
