"""Scores and labels as people write them: "74%", yes, -1, a number of the first wrong step, the classes of a step."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prmcal.registry.messages import shown

_RIGHT = "correct right true yes y t pass passed success succeeded positive good ok valid solved resolved accepted + ✓"
_WRONG = "incorrect wrong false no n f fail failed failure negative bad error invalid unsolved unresolved rejected - ✗"
_SHARES = {**dict.fromkeys((*_RIGHT.split(), "neutral"), 1.0), **dict.fromkeys(_WRONG.split(), 0.0)}
_NONE = ("", "n/a", "na", "none", "null", "nan")
FIRST_WRONG = re.compile(r"first.*(error|wrong|mistake)|(error|wrong|mistake)_?(step|ind|loc)", re.IGNORECASE)
"""Names of fields with the number of the first wrong step."""
OF_STEPS = re.compile(r"step|^labels$|rating|process", re.IGNORECASE)
"""Names of fields whose list has a label for each step of one solution."""
_SUM = 0.02  # by which rounded shares of classes may miss 1


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not True or False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_missing(value: Any) -> bool:
    """Return whether a value is empty: null, NaN, "N/A", or a list of such values."""
    if isinstance(value, list):
        return all(map(is_missing, value))
    if isinstance(value, str):
        return value.strip().lower() in _NONE
    return value is None or (isinstance(value, float) and math.isnan(value))


def score_of(value: Any) -> float | int | None:
    """Return a score as a number: of "74%", "0.74" and "7/10", too. None if it is missing.

    Raises ValueError if it is no number, or is not finite.
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        text, slash, denominator = value.strip().replace("\u2212", "-").partition("/")
        value = float(text.removesuffix("%"))
        if slash:
            value /= float(denominator) or math.nan
        if text.endswith("%"):
            value /= 100
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise ValueError(f"a score must be a number. Got {shown(value)}")
    return int(value) if isinstance(value, bool) else value


def is_score(value: Any) -> bool:
    """Return whether there is a number in nested lists."""
    return any(map(is_score, value)) if isinstance(value, list) else is_number(value)


def is_written_score(value: Any) -> bool:
    """Return whether a text, or a text in nested lists, is a number."""
    if isinstance(value, list):
        return any(map(is_written_score, value))
    try:
        return isinstance(value, str) and score_of(value) is not None
    except ValueError:
        return False


def right_class(value: Any) -> list[Any] | None:
    """Return 1 - the share of the first class of each step. The score of a step is a list of the shares of its classes.

    The classes are ReasonEval's (negative, neutral, positive), or the two of other PRMs (bad, good). None for other
    values.
    """
    steps = value if isinstance(value, list) else []
    if not all(isinstance(step, list) and len(step) in (2, 3) for step in steps) or sum(map(len, steps)) < 3:
        return None
    if not all(is_number(share) and 0 <= share <= 1 for step in steps for share in step):
        return None
    if any(abs(sum(step) - 1) > _SUM for step in steps):
        return None
    return [1 - step[0] for step in steps]


def share_of(value: Any) -> float | None:
    """Return a label as a share in [0, 1]: 1 for right, 0 for wrong, or None if it is neither."""
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    if is_missing(value):
        return None
    if isinstance(value, str):
        text = value.strip().rstrip(".").lower()
        try:
            return _SHARES[text] if text in _SHARES else score_of(text)
        except ValueError:
            return None
    return float(value) if isinstance(value, bool) or is_number(value) else None


def is_label(value: Any) -> bool:
    """Return whether a value, or all values in nested lists, are labels: a share, a word such as `correct`, 1 or -1."""
    values = [leaf for leaf in leaves([value]) if not is_missing(leaf)]
    shares = [share_of(leaf) for leaf in values]
    return bool(values) and all(share is not None and (0 <= share <= 1 or share == -1) for share in shares)


def leaves(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of nested lists."""
    for value in values:
        if isinstance(value, list):
            yield from leaves(value)
        else:
            yield value


@dataclass(frozen=True)
class Labels:
    """The meaning of the labels of a file."""

    kind: Literal["outcome", "signs", "first error", "steps", "rates"]
    """Whether a solution is right, as a share or as 1 and -1; the first wrong step; which steps are right; or the
    success rate of each step."""
    base: int = 0
    """For first wrong steps: the number of the first step. For labels of steps: the label of a wrong step."""
    unmarked: bool = False
    """True if a missing first wrong step means that no step is wrong."""
    is_shown: bool = True
    """Whether the labels show if the first step has the number 0 or 1."""

    @classmethod
    def of(cls, name: str, values: Sequence[Any], lengths: Sequence[int]) -> "Labels":
        """Return the meaning of labels by their field, all of their values, and the numbers of scores (0: unknown).

        Raises ValueError if they can be no labels.
        """
        of_steps = any(isinstance(value, list) and len(value) > 1 for value in values)
        labels = [leaf for leaf in leaves(values) if not is_missing(leaf)]
        shares = [share_of(leaf) for leaf in labels]
        if any(share is None for share in shares):
            raise ValueError(f"{shown(next(leaf for leaf in labels if share_of(leaf) is None))} is no label")
        numbers = {share for share in shares if share is not None}
        if of_steps and numbers <= {-1, 0, 1}:
            return cls("steps", base=-1 if -1 in numbers else 0)
        if of_steps and all(0 <= share <= 1 for share in numbers):
            return cls("rates")
        is_first_error = FIRST_WRONG.search(name) is not None
        if numbers <= {-1, 1} and -1 in numbers and not is_first_error:
            return cls("signs")
        are_integers, highest = all(share == int(share) for share in numbers), max(numbers, default=0)
        longest = max(lengths, default=0)
        # No first wrong step is behind the last step.
        is_place = 1 < highest <= (longest or highest) or (longest > 1 and numbers == {-1, 0, 1})
        if not of_steps and are_integers and (is_first_error or is_place):
            missing = any(map(is_missing, values))
            ends_behind = any(share == length for share, length in zip(map(share_of, values), lengths, strict=False))
            # No wrong step is -1, no number, or 0. So 0 is the first step if one of the others occurs.
            from_zero = (-1 in numbers and not ends_behind) or (0 in numbers and (missing or -1 in numbers))
            base = 0 if from_zero else 1
            return cls("first error", base, min(numbers, default=1) >= base, 0 in numbers or ends_behind)
        if any(not 0 <= share <= 1 for share in numbers):
            raise ValueError("a label is a share in [0, 1], 1 and -1, a word such as correct, or the first wrong step")
        return cls("outcome")

    def read(self, value: Any) -> dict[str, Any]:
        """Return the meaning of a label, as fields of a solution."""
        if self.kind == "steps" and isinstance(value, list):
            shares = [share_of(mark) for mark in value]
            # Beside -1, 0 is neutral.
            return {"right": [None if share is None else share > self.base + 0.5 for share in shares]}
        if self.kind == "rates":
            return {"rates": None if is_missing(value) else [share_of(label) for label in value]}
        share = share_of(value)
        if self.kind == "first error":
            if share is None and not self.unmarked:
                return {}
            first_error = -1 if share is None or share < self.base else int(share) - self.base
            return {"first_error": first_error, "label": first_error < 0}
        if self.kind == "signs" and share is not None:
            share = (share + 1) / 2
        return {"label": share}

    @property
    def words(self) -> str:
        """The words for the meaning of the labels; empty for the usual meaning."""
        return {
            "first error": f", the first wrong step counted from {self.base}{'' if self.is_shown else ', as is usual'}",
            "signs": ", 1 for right and -1 for wrong",
            "steps": ", one for each step",
            "rates": ", a success rate for each step",
        }.get(self.kind, "")
