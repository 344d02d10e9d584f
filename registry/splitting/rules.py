"""Split a text into steps by a rule, and keep the steps within their limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from prmcal.registry.splitting.argument import BLANK_LINE, StepSplitting
from prmcal.steps import split_steps
from prmcal.thoughts import THOUGHT_BEGINS, THOUGHT_ENDS

__all__ = ["split_text"]

Count = Callable[[str], int]

_SENTENCE_END = r"(?:(?<=[.!?])|(?<=[.!?][\"')\]*$]))\s+|\s*\n\s*"
_END = re.compile(f"({_SENTENCE_END})")
_BLANK_LINES = re.compile(r"\n{2,}")


def split_text(text: str, splitting: StepSplitting, thinking: bool, count: Count) -> tuple[str, ...]:
    """Split a text into steps. No step contains a blank line.

    Parameters
    ----------
    text : str
    splitting : StepSplitting
    thinking : bool
        Whether the text begins inside a thought.
    count : callable
        Returns the number of tokens of a text.
    """
    steps = _steps(text, thinking, splitting)
    blocks: Iterable[str] = (_BLANK_LINES.sub("\n", step.strip("\n")) for step in steps if step.strip())
    if splitting.least_tokens is not None:
        blocks = _joined(blocks, splitting.least_tokens, count)
    if splitting.most_tokens is not None:
        blocks = (piece for step in blocks for piece in _cut(step, splitting.most_tokens, count))
    return tuple(blocks)


def _parts(text: str, thinking: bool) -> Iterator[tuple[str, bool]]:
    """Yield the thoughts of a text, with their tags, and what is between them. The flag tells thoughts."""
    while text:
        if thinking:
            thought, end, text = text.partition(THOUGHT_ENDS)
            yield thought + end, True
            thinking = False
        else:
            outside, begin, rest = text.partition(THOUGHT_BEGINS)
            yield outside, False
            text, thinking = begin + rest, bool(begin)


def _steps(text: str, thinking: bool, splitting: StepSplitting) -> Sequence[str]:
    if splitting.rule == BLANK_LINE:
        return split_steps(text)
    blocks = [
        block
        for part, thought in _parts(text, thinking)
        for block in ([part] if thought else split_steps(part))
    ]
    if splitting.rule == "after-think":
        return blocks
    before_marker = _before_marker(splitting.markers)
    return [step for block in blocks for step in before_marker.split(block)]


@cache
def _before_marker(markers: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern of the white space between a sentence and another one that begins with a marker."""
    words = "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
    return re.compile(rf"(?:{_SENTENCE_END})(?=(?:{words})(?!\w))")


def _joined(steps: Iterable[str], least: int, count: Count) -> Iterator[str]:
    """Join every step that is too short to the next one. The last one has none and can be short."""
    held = ""
    for step in steps:
        held = f"{held}\n{step}" if held else step
        if count(held) >= least:
            yield held
            held = ""
    if held:
        yield held


def _cut(step: str, most: int, count: Count) -> Iterator[str]:
    """Cut a step that is too long. A sentence that is too long alone stays whole."""
    if count(step) <= most:
        yield step
        return
    held, *rest = _END.split(step)
    for space, sentence in zip(rest[::2], rest[1::2], strict=True):
        longer = f"{held}{space}{sentence}"
        if not held.strip():
            held = sentence
        elif count(longer) > most:
            yield held
            held = sentence
        else:
            held = longer
    if held.strip():
        yield held
