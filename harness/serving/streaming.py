"""A solution as it comes: one event on a line, as JSON (``application/x-ndjson``).

Each line is an object whose field ``event`` says what it is:

    step      a step that was generated, with the rewards of the prefix that it ends
    solution  the last line: the answer and all that belongs to it
    error     the last line if the question failed: ``error`` is a sentence
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from prmcal.harness.inference.basis.results import Solution, Step
from prmcal.harness.serving.ending import Ending, EndingError
from prmcal.harness.serving.refusals import ENDING, sentence

__all__ = ["MEDIA_TYPE", "lines"]

MEDIA_TYPE = "application/x-ndjson"


async def lines(
    first: Step | Solution, rest: AsyncIterator[Step | Solution], ending: Ending
) -> AsyncIterator[str]:
    """Yield the lines of a stream.

    Parameters
    ----------
    first : Step or Solution
        The first event, which the caller has waited for.
    rest : async iterator
        The other events. It is cancelled if the client goes away, or if the server ends.
    ending : Ending
    """
    try:
        event: Step | Solution | None = first
        while event is not None:
            yield _line(event)
            event = await ending.before(anext(rest, None))
    except EndingError:
        yield _encoded({"event": "error", "error": ENDING})
    except Exception as error:
        yield _encoded({"event": "error", "error": sentence(error)})


def _line(event: Step | Solution) -> str:
    if isinstance(event, Step):
        return _encoded({"event": "step", **asdict(event)})
    if event.error:
        return _encoded({"event": "error", "error": event.error})
    return _encoded({"event": "solution", **asdict(event)})


def _encoded(data: dict[str, Any]) -> str:
    return json.dumps(data, allow_nan=False) + "\n"
