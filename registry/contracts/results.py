"""Checks of the results of plugins, by their contracts. Runs and the conformance checks share them.

Each raises a FaultyPluginError that names the violated rule. The message does not name the plugin: the caller does.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import FaultyPluginError
from prmcal.registry.contracts.data import Completion, FinishReason, Level, PrefixScores, Question
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.contracts.strategy import Allowance, Answered
from prmcal.registry.messages import shown

_MOST_TOKENS = 2**31 - 1


def require(condition: object, message: str) -> None:
    """Raise a FaultyPluginError unless a plugin's result meets its contract."""
    if not condition:
        raise FaultyPluginError(message)


def require_length(entries: Any, expected: int, what: str) -> None:
    """Raise a FaultyPluginError unless `result` has the expected number of entries."""
    actual = len(entries) if hasattr(entries, "__len__") else type(entries).__name__
    advice = "Return one for each, in their order, also for an empty one and for equal ones."
    require(actual == expected, f"it returned {actual} {what} instead of {expected}. {advice}")


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and 0 <= int(value) <= _MOST_TOKENS


def check_completions(completions: Any, n: int) -> None:
    """Raise a FaultyPluginError unless these are `n` completions of a prefix that can be stored."""
    require_length(completions, n, "completions of a prefix")
    for completion in completions:
        # A message is written only for a wrong completion, since there may be millions.
        if not isinstance(completion, Completion) or not isinstance(completion.text, str):
            raise FaultyPluginError(
                f"it must return Completion objects with a text. Got {shown(completion)}. Write Completion(text, "
                "tokens, finish_reason) for each."
            )
        counts = completion.tokens, completion.prompt_tokens
        if not all(map(_is_count, counts)):
            raise FaultyPluginError(
                f"it must return token counts in [0, {_MOST_TOKENS}]. Got {shown(counts)}. Count the tokens with the "
                "LLM's tokenizer. Write 0 for the prompt if they are not known."
            )
        if completion.finish_reason not in get_args(FinishReason):
            raise FaultyPluginError(
                f"its finish reason must be {', '.join(get_args(FinishReason))}. Got "
                f"{shown(completion.finish_reason)}. Translate the reasons of the engine."
            )
    "".join(completion.text for completion in completions).encode()  # Half of a surrogate pair raises an error.


def check_scores(scores: Any, steps: int) -> None:
    """Raise a FaultyPluginError unless the scores of a trajectory of `steps` steps meet the contract."""
    if not isinstance(scores, PrefixScores):
        raise FaultyPluginError(
            f"it must return PrefixScores. Got {shown(scores)}. Write PrefixScores.from_rewards(rewards) for each "
            "trajectory, with rewards of shape (steps + 1,)."
        )
    for name in ("reward", "logit", "over_long"):
        what = f"values of '{name}' for a trajectory of {steps} steps and the bare question"
        require_length(getattr(scores, name), steps + 1, what)
    require(_is_count(scores.tokens), f"it must return a count of tokens. Got {shown(scores.tokens)}.")
    is_read = ~np.asarray(scores.over_long, dtype=bool)
    judged, logits = (np.asarray(values, dtype=np.float64)[is_read] for values in (scores.reward, scores.logit))
    require(
        not np.isnan(judged).any(),
        "it returned NaN for a prefix that it did not flag as too long. Set over_long where a prefix cannot be read.",
    )
    outside = judged[(judged < 0) | (judged > 1)]
    require(
        not outside.size,
        f"it returned the reward {outside[:1]}, outside [0, 1]. Write reward = scipy.special.expit(logit).",
    )
    require(np.isfinite(logits).all(), "it returned a logit that is not finite.")


def check_rewards(rewards: Floats, rows: int, levels: int) -> None:
    """Raise a FaultyPluginError unless a calibrator may predict these rewards for some prefixes at some levels."""
    shape = str(rewards.shape).replace(f"({rows},", "(rows,")
    require(
        rewards.shape == (rows, levels),
        f"it returned the shape {shape} instead of (rows, {levels}). Return a row for each prefix and a column for "
        "each level, such as rewards[:, None].",
    )
    require(not np.isnan(rewards).any(), "it returned NaN. Guard divisions by 0 and logarithms of 0.")
    outside = rewards[(rewards < 0) | (rewards > 1)]
    require(
        not outside.size,
        f"it returned the reward {outside[:1]}, outside [0, 1]. Write np.clip(rewards, 0, 1), or return probabilities "
        "instead of log-odds.",
    )
    ordered = (np.diff(rewards, axis=1) >= 0).all()
    require(ordered, "its quantiles cross. Write np.sort(rewards, axis=1), or fit levels that cannot cross.")


def check_answered(answered: Any, questions: int, allowance: Allowance) -> None:
    """Raise a FaultyPluginError unless the results of a strategy meet the contract."""
    require(
        isinstance(answered, Answered),
        f"it must return an Answered. Got {type(answered).__name__}. Write `return Answered(accuracy, samples)`.",
    )
    ranges: dict[str, tuple[Floats | None, int]] = {
        "accuracy": (answered.accuracy, 1),
        "samples": (answered.samples, allowance.samples),
        "pass_at_samples": (answered.pass_at_samples, 1),
        "estimated_from": (answered.estimated_from, allowance.samples),
        "order_error": (answered.order_error, 1),
    }
    for name, (values, upper) in ranges.items():
        if values is None:
            continue
        shape = np.shape(values)
        require(
            shape == (questions,),
            f"its '{name}' has the shape {shape} instead of {(questions,)}. Give every question its own value, such as "
            "np.full(pool.questions, value).",
        )
        require(np.isfinite(values).all(), f"its '{name}' is not finite.")
        outside = values[(values < 0) | (values > upper + 1e-9)]
        require(
            not outside.size,
            f"its '{name}' contains {outside[:1]}, outside [0, {upper}]. Write np.clip(..., 0, {upper}).",
        )
    require(
        not answered.fixed or (answered.estimated_from is None and np.ptp(answered.samples) == 0),
        "with 'fixed', every question must get the same 'samples', and 'estimated_from' must be None.",
    )
    if answered.estimated_from is not None:
        means = answered.estimated_from.mean(), answered.samples.mean()
        require(np.isclose(*means, rtol=1e-9), "the mean of 'estimated_from' must be the mean of 'samples'.")


def check_questions(questions: Sequence[Any]) -> None:
    """Raise a FaultyPluginError unless these are questions of a data set that can be stored."""
    for question in questions:
        require(
            isinstance(question, Question),
            f"it must return Question objects. Got {shown(question)}. Write Question(id, text, answer), with three "
            "texts.",
        )
        texts = (question.id, question.text, question.answer, question.subject or "")
        require(
            all(isinstance(text, str) for text in texts) and isinstance(question.level, Level | None),
            "the id, text, answer and subject of a question are strings, and its level is a number or a word. "
            f"Got {shown(question)}. Write str(...) around a text, and None for a level that is not known.",
        )
    ((commonest_id, times),) = Counter(question.id for question in questions).most_common(1) or [("", 0)]
    require(times < 2, f"it has two questions with the same id, '{commonest_id}'. Number the questions.")
    content_hash(questions)  # Half of a surrogate pair raises an error.
