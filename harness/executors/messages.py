"""What a worker tells: lines about its progress, and the outcome of its shard.

A plugin decides a part of what a worker tells. Therefore messages are JSON, and they are checked when they are read.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from prmcal.harness.scheduling.schedule import Outcome
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["MessageError", "read_message", "write_message"]

_OUTCOME = TypeAdapter(Outcome)
_LONGEST_LINE = 200


class MessageError(ValueError):
    """A message is not what a worker tells about its shard."""


def write_message(message: Outcome | str) -> bytes:
    """Return an outcome, or a line about the progress, as JSON. A line is cut after 200 characters."""
    if isinstance(message, Outcome):
        return _encoded({"outcome": _OUTCOME.dump_python(message, mode="json")})
    return _encoded({"line": " ".join(str(message).split())[:_LONGEST_LINE]})


def read_message(content: bytes, ref: ArtifactRef) -> Outcome | str:
    """Return a message of the worker that computes the shard `ref`.

    Raises
    ------
    MessageError
        If it is not JSON of the right form, or about another shard.
    """
    try:
        found = json.loads(content)
        if set(found) == {"line"} and isinstance(found["line"], str):
            return found["line"][:_LONGEST_LINE]
        outcome = _OUTCOME.validate_python(found["outcome"])
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
        raise MessageError(f"A worker sent a message that cannot be read: {type(error).__name__}.") from error
    if outcome.ref != ref or (outcome.manifest is None) == (outcome.failure is None):
        raise MessageError("A worker sent a message about another shard than its own.")
    return outcome


def _encoded(data: Any) -> bytes:
    # Texts of plugins may have halves of surrogate pairs, which UTF-8 cannot hold. JSON escapes them.
    return json.dumps(data, ensure_ascii=True).encode("ascii")
