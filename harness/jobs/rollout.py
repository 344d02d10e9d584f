"""Rollout: sample whole trajectories of some questions and grade them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require, require_length
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import GeneratingParameters, RolloutParameters
from prmcal.registry.contracts.data import Completion, FinishReason, Prefix
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.excerpts import shown
from prmcal.registry.network import patiently
from prmcal.registry.splitting.argument import StepSplitting
from prmcal.registry.splitting.rules import split_text
from prmcal.steps import join_steps, split_steps, text_so_far
from prmcal.thoughts import THOUGHT_BEGINS, in_thought

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "check_completions", "compute", "draw", "in_steps", "starts_in_thought", "typed"]

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


def in_steps(llm: LLM, prefix: Prefix, completions: Sequence[Completion]) -> list[Completion]:
    """Return the completions of a prefix as they are stored.

    The steps of the LLM's own rule are separated by blank lines, and there are no other blank lines. If the prompt of a
    bare question ends with the tag that begins a thought, the completion gets this tag. The finish reason of a thought
    that was cut off is ``thought``. With the rule ``blank-line`` without limits, the other texts stay as they are.
    """
    splitting = StepSplitting.of(llm.splitting)
    thinking = starts_in_thought(llm, prefix)
    stored = []
    for each in completions:
        text = each.text
        if thinking and not prefix.steps and not text.lstrip().startswith(THOUGHT_BEGINS):
            text = THOUGHT_BEGINS + "\n" + text.lstrip("\n")
        if splitting.changes_texts:
            text = join_steps(split_text(text, splitting, thinking, llm.count_tokens))
        cut_off = each.finish_reason == "length" and in_thought(text_so_far(prefix.steps) + text)
        reason: FinishReason = "thought" if cut_off else each.finish_reason
        stored.append(replace(each, text=text, finish_reason=reason))
    return stored


def starts_in_thought(llm: LLM, prefix: Prefix) -> bool:
    """Tell whether the completions of a prefix begin inside a thought."""
    if prefix.steps:
        return in_thought(text_so_far(prefix.steps))
    return llm.opens_thought(prefix.question)
