"""Calls of plugins: errors that name the plugin, and results that are checked against its contract."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import FaultyPluginError, ModelBrokenError, PluginFailedError, PrmcalError, StorageError
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.results import check_rewards, check_scores, require_length
from prmcal.registry.messages import message_of
from prmcal.registry.network import patiently

_WITH_MODELS = ("llm", "prm", "calibrator")
_MISTAKES = (
    *(ArithmeticError, AttributeError, ImportError, LookupError, NameError, NotImplementedError),
    *(RecursionError, SyntaxError, TypeError, ValueError, FileNotFoundError, PermissionError),
)


@contextmanager
def plugin_guard(kind: str, name: str, action: str) -> Iterator[None]:
    """Turn any exception of a plugin into a PluginFailedError that names the plugin.

    Errors of prmcal that a plugin passes on, such as a DataError, stay as they are. A StorageError does not count: it
    would end the whole run.

    Only after a ModelBrokenError, a second try is worth its cost. LLMs, PRMs and calibrators raise such errors when an
    engine, a GPU or memory fails: a RuntimeError, an OSError, an exception of a library. These errors would occur
    again, and are final: a result outside the contract, any other error of prmcal, and what Python raises for mistakes
    in code or data, such as a TypeError, a ValueError, a KeyError or a ZeroDivisionError. A plugin can also raise a
    ModelBrokenError itself.
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
        named_error = failed(f"The {kind} '{name}' failed to {action}: {message}")
        named_error.plugin = f"{kind}:{name}"
        raise named_error from error


def checked_scores(prm: PRM, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
    """Return the scores of all prefixes of some trajectories, by request and trajectory.

    Raises a FaultyPluginError if a result is outside the contract, such as NaN.
    """
    scores_of_requests = patiently(prm, lambda: prm.score_batch(list(requests)))
    require_length(scores_of_requests, len(requests), "lists of scores")
    for request, request_scores in zip(requests, scores_of_requests, strict=True):
        require_length(request_scores, len(request.trajectories), "scored trajectories")
        for trajectory, scores in zip(request.trajectories, request_scores, strict=True):
            check_scores(scores, len(trajectory))
    return scores_of_requests


def checked_rewards(calibrator: Calibrator, features: Any, levels: Sequence[float]) -> Floats:
    """Return the rewards of a fitted calibrator at some levels, of shape (rows, levels).

    Raises a FaultyPluginError if their shape, their range or their order breaks the contract.
    """
    rewards = np.asarray(calibrator.predict_at(features, levels), dtype=np.float64)
    check_rewards(rewards, len(features), len(levels))
    return rewards
