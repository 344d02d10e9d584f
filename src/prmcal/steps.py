"""The steps of a solution, which blank lines separate, and thoughts, which tags enclose."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

STEP_SEPARATOR = "\n\n"

STEP_END = "\x1e"
"""The mark after each step in a stored text, if the steps do not end at blank lines. No reader sees it."""

_LINE_ENDS = "\n\r\x85\u2028\u2029"
_INVISIBLE = "\u200b\u2060\ufeff"
_WHITE = _INVISIBLE + "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
LINE_END = r"(?:\r\n|\r(?!\n)|[\n\x85\u2028\u2029])"
_BLANK_LINE = rf"(?:(?:[^\S{_LINE_ENDS}]|[{_INVISIBLE}])*{LINE_END})"
BLANK_LINES = re.compile(rf"{LINE_END}{_BLANK_LINE}+")
ENDS_OF_LINES = re.compile(rf"{LINE_END}{_BLANK_LINE}*")
_ANY_LINE_END = re.compile(f"[{_LINE_ENDS}]")


class Step(str):
    """A step: a text without blank lines in it, blank lines before it and white space behind it.

    `sampled` is the step with all white space that stood in it and around it.
    """

    sampled: str

    def __new__(cls, sampled: str) -> Self:
        """Make the step of a piece of a text."""
        visible = sampled.strip(_WHITE)
        if len(visible) < len(sampled):
            before = sampled.partition(visible)[0] if visible else ""
            visible = _ANY_LINE_END.split(before)[-1] + visible
        step = super().__new__(cls, BLANK_LINES.sub("\n", visible))
        step.sampled = sampled
        return step


def steps_of(pieces: Iterable[str]) -> tuple[Step, ...]:
    """Return the steps of the pieces of a text. White space alone belongs to the step before it, if there is one.

    White space at the end of the last piece is left out, since it separates the step from nothing.
    """
    *cut, last = ("", *pieces)
    joined: list[str] = []
    for piece in (*cut, last.rstrip() or last):
        if joined and not (piece.strip(_WHITE) and joined[-1].strip(_WHITE)):
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(map(Step, joined)) if joined[0].strip(_WHITE) else ()


def pieces_between(ends: re.Pattern[str], text: str) -> list[str]:
    """Cut a text behind each match of a pattern. The pieces together are the text."""
    places = [0, *(match.end() for match in ends.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def split_steps(text: str) -> tuple[Step, ...]:
    """Split a trajectory into its steps x_1..x_T.

    A line of white space only is blank, and lines may end as on Windows. A stored text can mark other ends of steps.
    """
    return steps_of(text.split(STEP_END) if STEP_END in text else pieces_between(BLANK_LINES, text))


def stored_text(steps: Sequence[Step]) -> str:
    """Return the sampled text of steps. Steps get marks if `split_steps` would find others in it."""
    text = "".join(step.sampled for step in steps)
    same = [step.sampled for step in split_steps(text)] == [step.sampled for step in steps]
    return text if same else "".join(step.sampled + STEP_END for step in steps)


def join_steps(steps: Sequence[str]) -> str:
    """Join steps to a text that ends with the last step."""
    return STEP_SEPARATOR.join(steps)


def text_so_far(steps: Sequence[str]) -> str:
    """Join steps to a text that a completion continues: the sampled text, with a separator after the last step."""
    texts: list[str] = [getattr(step, "sampled", step) for step in steps]
    return "".join(text if text[-1:].isspace() else text + STEP_SEPARATOR for text in texts)


def without_marks(text: str) -> str:
    """Return a stored text as it was sampled."""
    return text.replace(STEP_END, "")


THOUGHT_BEGINS = "<think>"
THOUGHT_ENDS = "</think>"
BEGIN_OF_THOUGHT = re.compile(rf"^[^\S\n]*{THOUGHT_BEGINS}", re.MULTILINE)
"""The tag that begins a thought, at the beginning of a line. Within a line it is a word."""

_END_WITHOUT_BEGIN = re.compile(rf"^[^\S\n]*{THOUGHT_ENDS}[^\S\n]*\n(?=\s*\S)", re.MULTILINE)


def in_thought(text: str) -> bool:
    """Tell whether a text ends inside a thought."""
    return _behind_thoughts(text) is None


def behind_thought(text: str) -> str:
    """Return the text after the last thought: all text if there is no thought, none if a thought has no end.

    A thought without a tag at its beginning ends only at a tag on its own line with text after it.
    """
    behind = _behind_thoughts(text) or ""
    return pieces_between(_END_WITHOUT_BEGIN, behind)[-1]


def _behind_thoughts(text: str) -> str | None:
    """Return the text after the last thought with both tags; None if a thought has no end."""
    while begin := BEGIN_OF_THOUGHT.search(text):
        _, end, text = text[begin.end() :].partition(THOUGHT_ENDS)
        if not end:
            return None
    return text


def opens_thought(prompt: str) -> bool:
    """Return whether a prompt ends with the tag that begins a thought, so that completions begin inside the thought."""
    return prompt.rstrip().endswith(THOUGHT_BEGINS)
