"""The argument `splitting` of an LLM: where its steps end, and how long they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

__all__ = ["BLANK_LINE", "MARKERS", "Splitting", "StepSplitting"]

BLANK_LINE = "blank-line"

_Count = Annotated[int, Field(ge=1)]

MARKERS = (
    *("Wait", "Double-check", "Alternatively", "Make sure", "Another way", "Verify", "To confirm"),
    *("But", "However", "Hmm", "Let me double-check", "Let me verify", "Let me check"),
)
"""Words with which reasoning models begin another path.

The first seven are those at which Zhang et al. (2025), arXiv:2504.05419, split the thoughts of reasoning models. The
others are frequent at the beginning of such a sentence.
"""


class StepSplitting(BaseModel):
    """Where the steps of an LLM's text end.

    Attributes
    ----------
    rule : {"blank-line", "markers", "after-think"}
        ``blank-line``: at every blank line. ``markers``: before every sentence that begins with a marker; outside of
        thoughts also at blank lines. ``after-think``: a whole thought is one step, and behind it a step ends at every
        blank line.
    markers : tuple of str
        The words of the rule ``markers``, with their capital letters.
    least_tokens : int or None
        A shorter step is joined to the next one.
    most_tokens : int or None
        A longer step is cut at the ends of sentences and lines.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Literal["blank-line", "markers", "after-think"] = "blank-line"
    markers: tuple[Annotated[str, Field(pattern=r"^\S(.*\S)?$")], ...] = Field(MARKERS, min_length=1)
    least_tokens: _Count | None = None
    most_tokens: _Count | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.rule != "markers" and "markers" in self.model_fields_set:
            raise ValueError("only the rule 'markers' has markers")
        if self.least_tokens and self.most_tokens and self.least_tokens > self.most_tokens:
            raise ValueError("'least_tokens' must not exceed 'most_tokens'")
        return self

    @classmethod
    def of(cls, splitting: str | Mapping[str, Any]) -> StepSplitting:
        """Read the argument of an LLM: the name of a rule, or a mapping with the attributes above."""
        return cls.model_validate({"rule": splitting} if isinstance(splitting, str) else dict(splitting))

    @property
    def changes_texts(self) -> bool:
        """Whether a text can get other steps than those between its blank lines."""
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
        description="blank-line, markers, after-think, or a mapping with 'rule' (one of these) and, if wanted, "
        "'markers' (a list of words, for the rule 'markers'), 'least_tokens' and 'most_tokens' (1 or more, the first "
        "not above the second)"
    ),
]
"""The annotation of the argument. See :class:`StepSplitting` for its meaning."""
