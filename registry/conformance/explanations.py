"""Explain an exception that a plugin raised in a check: what was expected, where it was raised, what to write."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from prmcal.errors import PluginFailedError
from prmcal.registry.conformance.source import place_in
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.excerpts import excerpt, message_of

__all__ = ["explained"]

_FEATURES = {
    "HiddenStates": "It has the arrays states, parents, leaves and logit",
    "ScoredPrefixes": "It has prm, prefixes and the array logit",
}
_FIELDS = ("states", "parents", "leaves", "logit", "prm", "prefixes")
_STATE = (
    "save() writes the attributes that end in an underscore: arrays of numpy, and JSON data. Write float(...) or "
    "int(...) for a number of numpy, store the numbers of an object, or define save() and load()."
)
_LONGEST_MESSAGE = 1000
_CHANGING = ("append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear")


def explained(cls: type[Plugin], error: BaseException) -> str:
    """Return the explanation of an exception: what was raised, where, and what to write instead if that is known.

    Parameters
    ----------
    cls : type
        The class of the plugin that was checked.
    error : BaseException
        What it raised.
    """
    place = place_in(cls, error)
    said = str(error) if isinstance(error, PluginFailedError) else f"It raised {message_of(error)}"
    said = excerpt(said, _LONGEST_MESSAGE)
    where = f" See {place}." if place else ""
    return " ".join(f"{said.rstrip('.')}.{where} {_remedy(cls, error)}".split())


def _remedy(cls: type[Plugin], error: BaseException) -> str:
    """Return what to write instead; empty if only the author can know."""
    if isinstance(error, AttributeError) and error.name:
        return _remedy_of_attribute(cls, error.obj, error.name)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install {error.name}, and name it in 'packages'."
    if isinstance(error, TypeError):
        for name, content in _FEATURES.items():
            if name in str(error):
                return (
                    f"The features are {name}, not an array. {content}. Write features.logit for the scores."
                )
        if "not JSON serializable" in str(error):
            return _STATE
    return ""


def _remedy_of_attribute(cls: type[Plugin], owner: Any, name: str) -> str:
    """Return what to write instead of an attribute that does not exist."""
    if owner is None:
        return "It is None there. Check what returned it."
    if isinstance(owner, (tuple, str)) and name in _CHANGING:
        return "The arguments are tuples, which cannot be changed. Make a copy with list(...)."
    if type(owner).__name__ in _FEATURES:
        kind = type(owner).__name__
        return f"The features are {kind}. {_FEATURES[kind]}."
    if type(owner).__name__ == "ndarray" and name in _FIELDS:
        return (
            "The features are an array, because of 'reads'. Write reads = \"hidden\" for HiddenStates, or "
            'reads = "prm" for ScoredPrefixes.'
        )
    if not isinstance(owner, cls):
        return ""
    if name in inspect.signature(cls).parameters:
        return f"Store the argument in __init__: write self.{name} = {name}."
    close = difflib.get_close_matches(name, [*vars(owner), *dir(type(owner))], n=1, cutoff=0.75)
    return f"Did you mean self.{close[0]}?" if close else f"Set self.{name} before it is used."
