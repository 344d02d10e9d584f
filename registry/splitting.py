"""Divide the text of a trajectory into steps."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from prmcal.steps import (
    BEGIN_OF_THOUGHT,
    BLANK_LINES,
    ENDS_OF_LINES,
    LINE_END,
    THOUGHT_ENDS,
    Step,
    pieces_between,
    steps_of,
)

BLANK_LINE = "blank-line"

_Count = Annotated[int, Field(ge=1)]

MARKERS = (
    *("Wait", "Double-check", "Alternatively", "Make sure", "Another way", "Verify", "To confirm"),
    *("But", "However", "Hmm", "Let me double-check", "Let me verify", "Let me check"),
)
"""Words with which reasoning models begin another path.

At the first seven, Zhang et al. (2025), arXiv:2504.05419, split the thoughts of reasoning models. The other words are
frequent at the beginning of such a sentence.
"""


class StepSplitting(BaseModel):
    """The places at which the steps of an LLM's text end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Literal["blank-line", "lines", "sentences", "markers", "after-think"] = "blank-line"
    """``blank-line``: at every blank line. ``lines``: at every line end. ``sentences``: at every line end and every end
    of a sentence. ``markers``: before every sentence that begins with a marker; outside of thoughts also at blank
    lines. ``after-think``: a whole thought is one step, and behind it a step ends at every blank line."""
    markers: tuple[Annotated[str, Field(pattern=r"^\S(.*\S)?$")], ...] = Field(MARKERS, min_length=1)
    """The words of the rule ``markers``, with their capital letters."""
    least_tokens: _Count | None = None
    """A shorter step is joined to the next one."""
    most_tokens: _Count | None = None
    """A longer step is cut at the ends of sentences and lines."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.rule != "markers" and "markers" in self.model_fields_set:
            raise ValueError("only the rule 'markers' has markers")
        if self.least_tokens and self.most_tokens and self.least_tokens > self.most_tokens:
            raise ValueError("'least_tokens' must not exceed 'most_tokens'")
        return self

    @classmethod
    def of(cls, splitting: str | Mapping[str, Any]) -> Self:
        """Read the argument of an LLM: the name of a rule, or a mapping with the attributes above."""
        return cls.model_validate({"rule": splitting} if isinstance(splitting, str) else dict(splitting))

    @property
    def changes_texts(self) -> bool:
        """True if steps can end elsewhere than at blank lines."""
        return self.rule != BLANK_LINE or self.least_tokens is not None or self.most_tokens is not None

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the steps, as JSON data."""
        unused = {"markers"} if self.rule != "markers" else None
        return self.model_dump(mode="json", exclude=unused, exclude_none=True)


def _checked(splitting: str | dict[str, Any]) -> str | dict[str, Any]:
    StepSplitting.of(splitting)
    return splitting


Splitting = Annotated[
    str | dict[str, Any],
    AfterValidator(_checked),
    Field(
        description="blank-line, lines, sentences, markers, after-think, or a mapping with 'rule' (one of these) and, "
        "if wanted, 'markers' (a list of words, for the rule 'markers'), 'least_tokens' and 'most_tokens' (1 or more, "
        "the first not above the second)"
    ),
]
"""The annotation of the argument. See :class:`StepSplitting` for its meaning."""

Count = Callable[[str], int]

# Each run of white space is tried once and as a whole: a model can repeat it thousands of times.
_SENTENCE = r"(?:(?<=[.!?])|(?<=[.!?][\"')\]*$]))\s++"
_SENTENCE_END = rf"(?:{_SENTENCE}|(?<!\s)(?=\s*{LINE_END})\s++)"
_ENDS = {BLANK_LINE: BLANK_LINES, "lines": ENDS_OF_LINES, "sentences": re.compile(_SENTENCE_END)}


def split_text(text: str, splitting: StepSplitting, thinking: bool, count: Count) -> tuple[Step, ...]:
    """Split a text into steps, which together hold all sampled text.

    `thinking` is true if the text begins inside a thought, and `count` returns the number of tokens of a text.
    """
    steps = steps_of(_pieces(text, thinking, splitting))
    if splitting.least_tokens is not None:
        steps = steps_of(_joined(steps, splitting.least_tokens, count))
    if splitting.most_tokens is not None:
        steps = steps_of(piece for step in steps for piece in _cut(step, splitting.most_tokens, count))
    return steps


def _thoughts_and_texts(text: str, thinking: bool) -> Iterator[tuple[str, bool]]:
    """Yield the thoughts of a text, with their tags, and the texts between them. The flag tells thoughts."""
    while text:
        if thinking:
            thought, end, remaining = text.partition(THOUGHT_ENDS)
            text = remaining.lstrip()
            yield thought + end + remaining[: len(remaining) - len(text)], True
            thinking = False
        else:
            begin = BEGIN_OF_THOUGHT.search(text)
            start = begin.start() if begin else len(text)
            yield text[:start], False
            text, thinking = text[start:], begin is not None


def _pieces(text: str, thinking: bool, splitting: StepSplitting) -> list[str]:
    if splitting.rule in _ENDS:
        return pieces_between(_ENDS[splitting.rule], text)
    blocks = [
        block
        for block_text, is_thought in _thoughts_and_texts(text, thinking)
        for block in ([block_text] if is_thought else pieces_between(BLANK_LINES, block_text))
    ]
    if splitting.rule == "after-think":
        return blocks
    before_marker = _before_marker(splitting.markers)
    return [piece for block in blocks for piece in pieces_between(before_marker, block)]


@cache
def _before_marker(markers: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern of the white space between a sentence and a next one that begins with a marker."""
    words = "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
    return re.compile(rf"(?:{_SENTENCE_END})(?=(?:{words})(?!\w))")


def _joined(steps: Iterable[Step], least: int, count: Count) -> Iterator[str]:
    """Join every step that is too short to the next one. The last step has no next one and can be short."""
    buffer = ""
    for step in steps:
        buffer += step.sampled
        if count(Step(buffer)) >= least:
            yield buffer
            buffer = ""
    yield buffer


def _cut(step: Step, most_tokens: int, count: Count) -> Iterator[str]:
    """Cut a step that is too long. A single sentence that is too long stays whole."""
    if count(step) <= most_tokens:
        yield step.sampled
        return
    buffer = ""
    for sentence in pieces_between(_ENDS["sentences"], step.sampled):
        if buffer.strip() and count(Step(buffer + sentence)) > most_tokens:
            yield buffer
            buffer = ""
        buffer += sentence
    yield buffer
