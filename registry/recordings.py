"""Recordings: trajectories, follow-ups and scores of models, to replay without the models.

A recording is a file of JSON lines (or a JSON list, or Parquet) with one question each::

    {"question": "1+1?", "solutions": ["a) ...", ...], "logits": [2.1, ...],
     "follow_ups": [{"prefix": ["a) ..."], "completions": ["b) ...", ...]}, ...]}

A solution is a text, or an object with `text` and, optionally, `tokens` and `finish_reason`: ``end``, ``length`` or
``stop``. A recorded solution is whole, so ``stop``, which OpenAI's interface returns for every solution that was not
cut off, is read as ``end``. The logit of a solution is a number (an outcome reward), or a list with one number for each
of its T+1 prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from prmcal.errors import DataError, InvalidArgumentsError
from prmcal.registry.contracts.data import Completion
from prmcal.registry.datasets.records import read_records
from prmcal.registry.excerpts import shown
from prmcal.registry.reading import file_hash, is_file
from prmcal.steps import split_steps

__all__ = ["RecordedQuestion", "as_one_step", "check_recording", "read_recording", "recording_identity"]

_MOST_TOKENS = 2**31 - 1
_FINISH_REASONS = ("end", "stop", "length")


@dataclass(frozen=True)
class RecordedQuestion:
    """The recording of one question.

    Attributes
    ----------
    place : str
        The place in the file, for error messages.
    solutions : tuple of Completion
        Whole trajectories, in the order in which they were sampled.
    follow_ups : mapping of tuple of str to tuple of Completion
        Completions of prefixes, by the prefix's steps.
    logits : tuple
        The recorded logits, one entry for each solution. Empty if there are none.
    """

    place: str
    solutions: tuple[Completion, ...]
    follow_ups: Mapping[tuple[str, ...], tuple[Completion, ...]]
    logits: tuple[Any, ...]


def as_one_step(text: str) -> str:
    """Remove the blank lines of a text, so that it is a single step."""
    return "\n".join(split_steps(text))


def check_recording(path: str) -> None:
    """Raise InvalidArgumentsError if there is no such file."""
    if not is_file(path):
        raise InvalidArgumentsError(
            f"There is no recording {path}. Set 'path' to a file of JSON lines with 'question' and 'solutions'."
        )


def recording_identity(identity: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a plugin's identity, with a hash of the recording in place of its path."""
    arguments = {name: value for name, value in identity["arguments"].items() if name != "path"}
    return {**identity, "arguments": arguments, "recording": file_hash(path)}


@lru_cache(maxsize=4)
def read_recording(path: str, solutions: str, logits: str) -> dict[str, RecordedQuestion]:
    """Read the questions of a recording, by their text.

    Parameters
    ----------
    path : str
        The file.
    solutions, logits : str
        The fields with the solutions and their logits.

    Raises
    ------
    DataError
        If the file cannot be read, a record is invalid, or a question occurs twice.
    """
    questions: dict[str, RecordedQuestion] = {}
    for place, record in read_records(Path(path)):
        try:
            text, question = _question(place, record, solutions, logits)
            if text in questions:
                raise ValueError(f"it has the same question as {questions[text].place}")
        except ValueError as error:
            raise DataError(f"{path}, {place}: {error}.") from error
        questions[text] = question
    return questions


def _question(place: str, record: Any, solutions: str, logits: str) -> tuple[str, RecordedQuestion]:
    if not isinstance(record, dict):
        raise ValueError(f"it must be an object with 'question' and '{solutions}'")
    text = record.get("question", record.get("problem"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it must have a 'question' (or a 'problem') that is a text")
    whole = _completions(record.get(solutions), solutions)
    scores = record.get(logits) or []
    if not isinstance(scores, list) or len(scores) not in (0, len(whole)):
        raise ValueError(f"'{logits}' must be a list with an entry for each of its {len(whole)} solutions")
    follow_ups = {
        tuple(each["prefix"]): _completions(each.get("completions"), "completions")
        for each in _follow_ups(record.get("follow_ups") or [])
    }
    return text, RecordedQuestion(place, whole, follow_ups, tuple(scores))


def _completions(values: Any, field: str) -> tuple[Completion, ...]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"'{field}' must be a list with at least one solution")
    return tuple(_completion(value, field) for value in values)


def _completion(value: Any, field: str) -> Completion:
    given = {"text": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not isinstance(given.get("text"), str):
        raise ValueError(f"each of '{field}' must be a text, or an object with a 'text'")
    text = given["text"]
    tokens, reason = given.get("tokens", len(text.split())), given.get("finish_reason", "end")
    if not isinstance(tokens, int) or not 0 <= tokens <= _MOST_TOKENS or reason not in _FINISH_REASONS:
        raise ValueError(
            f"in '{field}', 'tokens' must be an int in [0, {_MOST_TOKENS}] and 'finish_reason' end, stop or length. "
            f"Got {shown(tokens)} and {shown(reason)}"
        )
    return Completion(text, tokens, "length" if reason == "length" else "end")


def _follow_ups(values: Any) -> list[dict[str, Any]]:
    well_formed = isinstance(values, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("prefix"), list)
        and all(isinstance(step, str) for step in each["prefix"])
        for each in values
    )
    if not well_formed:
        raise ValueError(
            "'follow_ups' must be a list of objects with 'prefix', a list of steps, and 'completions'"
        )
    found: list[dict[str, Any]] = values
    return found
