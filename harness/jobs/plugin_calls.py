"""Calls of plugins: errors that name the plugin, and results that are checked against its contract."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import FaultyPluginError, ModelBrokenError, PluginFailedError, PrmcalError, StorageError
from prmcal.registry.contracts import data
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import PRM
from prmcal.registry.messages import message_of, shown
from prmcal.registry.network import patiently

_MOST_TOKENS = 2**31 - 1
_WITH_MODELS = ("llm", "prm", "calibrator")
_MISTAKES = (
    *(ArithmeticError, AttributeError, ImportError, LookupError, NameError, NotImplementedError),
    *(RecursionError, SyntaxError, TypeError, ValueError, FileNotFoundError, PermissionError),
)


@contextmanager
def plugin_guard(kind: str, name: str, action: str) -> Iterator[None]:
    """Turn any exception of a plugin into a PluginFailedError that names the plugin.

    Errors of prmcal that a plugin passes on, such as a DataError, stay as they are. A StorageError does not: it would
    end the whole run.

    A second try is worth its cost after a ModelBrokenError only. That is what an LLM, a PRM or a calibrator raises
    when its engine, its GPU or its memory fails: a RuntimeError, an OSError, an exception of a library. These
    would fail again, and are final: a result outside the contract, any other error of prmcal, and what Python raises
    for mistakes in code or data, such as a TypeError, a ValueError, a KeyError or a ZeroDivisionError. A plugin that
    knows better raises a ModelBrokenError itself.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        failed: type[PluginFailedError]
        if isinstance(error, PluginFailedError):
            failed, message = type(error), str(error)
        elif isinstance(error, PrmcalError) and not isinstance(error, StorageError):
            raise
        else:
            final = kind not in _WITH_MODELS or isinstance(error, (*_MISTAKES, StorageError))
            failed, message = FaultyPluginError if final else ModelBrokenError, message_of(error)
        named = failed(f"The {kind} '{name}' failed to {action}: {message}")
        named.plugin = f"{kind}:{name}"
        raise named from error


def require(condition: bool, message: str) -> None:
    """Raise a FaultyPluginError unless a plugin's result meets its contract."""
    if not condition:
        raise FaultyPluginError(message)


def require_length(result: Any, expected: int, what: str) -> None:
    """Raise a FaultyPluginError unless `result` has the expected number of entries."""
    found = len(result) if hasattr(result, "__len__") else type(result).__name__
    require(found == expected, f"it returned {found} {what} instead of {expected}.")


def check_completions(drawn: Any, n: int) -> None:
    """Raise a FaultyPluginError unless these are `n` completions of a prefix that can be stored."""
    require_length(drawn, n, "completions of a prefix")
    for each in drawn:
        require(
            isinstance(each, data.Completion) and isinstance(each.text, str),
            f"it must return Completion objects with a text. Got {shown(each)}.",
        )
        require(
            0 <= each.tokens <= _MOST_TOKENS and 0 <= each.prompt_tokens <= _MOST_TOKENS,
            f"it must return token counts in [0, {_MOST_TOKENS}]. Got {shown((each.tokens, each.prompt_tokens))}.",
        )
        require(
            each.finish_reason in get_args(data.FinishReason),
            f"its finish reason must be {', '.join(get_args(data.FinishReason))}. Got {shown(each.finish_reason)}.",
        )
    "".join(each.text for each in drawn).encode()  # Half of a surrogate pair raises an error.


def checked_scores(prm: PRM, requests: Sequence[data.ScoringRequest]) -> list[list[data.PrefixScores]]:
    """Return the scores of all prefixes of some trajectories, by request and trajectory.

    Raises a FaultyPluginError if a result is outside the contract, such as NaN.
    """
    found = patiently(prm, lambda: prm.score_batch(list(requests)))
    require_length(found, len(requests), "lists of scores")
    for request, scores in zip(requests, found, strict=True):
        require_length(scores, len(request.trajectories), "scored trajectories")
        for trajectory, each in zip(request.trajectories, scores, strict=True):
            check_scores(each, len(trajectory))
    return found


def checked_rewards(calibrator: Calibrator, features: Any, levels: Sequence[float]) -> Floats:
    """Return the rewards of a fitted calibrator at some levels, of shape (rows, levels).

    Raises a FaultyPluginError if they are outside the contract: their shape, their range or their order.
    """
    own = tuple(levels) == tuple(calibrator.levels)
    found = calibrator.predict(features) if own else calibrator.predict_at(features, levels)
    rewards, shape = np.asarray(found, dtype=np.float64), (len(features), len(levels))
    require(rewards.shape == shape, f"it returned the shape {rewards.shape} instead of {shape}.")
    require(not np.isnan(rewards).any(), "it returned NaN.")
    outside = rewards[(rewards < 0) | (rewards > 1)]
    require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
    require(bool((np.diff(rewards, axis=1) >= 0).all()), "its quantiles cross.")
    return rewards


def check_scores(scores: data.PrefixScores, steps: int) -> None:
    """Raise a FaultyPluginError unless the scores of a trajectory of `steps` steps meet the contract."""
    require_length(scores.reward, steps + 1, f"rewards for a trajectory of {steps} steps")
    require_length(scores.logit, steps + 1, f"logits for a trajectory of {steps} steps")
    reward = np.asarray(scores.reward, dtype=np.float64)
    judged = reward[~np.asarray(scores.over_long, dtype=bool)]
    require(not np.isnan(judged).any(), "it returned NaN for a prefix that it did not flag as too long.")
    outside = judged[(judged < 0) | (judged > 1)]
    require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
    require(
        bool(np.isfinite(scores.logit[~scores.over_long]).all()), "it returned a logit that is not finite."
    )
