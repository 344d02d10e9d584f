"""Constructor arguments: validated by their annotations, with messages that say what is allowed."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.contracts.plugin import (
    Count,
    FiniteFromZero,
    FinitePositive,
    Positive,
    Seed,
    Share,
    ShareOrOne,
    ShareOrZero,
)
from prmcal.registry.sources import arguments_model, validate_arguments


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("an odd number")
    return value


class Takes:
    def __init__(
        self,
        count: Count = 1,
        samples: Count | None = None,
        seed: Seed = 0,
        share: Share = 0.5,
        to_one: ShareOrOne = 1.0,
        from_zero: ShareOrZero = 0.0,
        positive: Positive = 1.0,
        finite: FinitePositive = 1.0,
        decay: FiniteFromZero = 0.0,
        choice: Literal["a", "b"] = "a",
        either: bool | Literal["auto"] = "auto",
        path: Annotated[str, Field(pattern="^/", description="an absolute path")] = "/",
        names: list[str] | None = None,
        even: Annotated[int, AfterValidator(_even)] = 0,
    ) -> None: ...


MODEL = arguments_model(Takes)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"count": 0}, "must be greater than or equal to 1. Got 0 instead."),
        (
            {"count": "many"},
            "must be a valid integer, unable to parse string as an integer. Got 'many' instead.",
        ),
        ({"count": 1.5}, "must be a valid integer, got a number with a fractional part. Got 1.5 instead."),
        ({"samples": 0}, "must be greater than or equal to 1. Got 0 instead."),
        ({"seed": -1}, "must be greater than or equal to 0. Got -1 instead."),
        ({"share": 1}, "must be less than 1. Got 1 instead."),
        ({"share": math.nan}, "must be less than 1. Got nan instead."),
        ({"to_one": 0.0}, "must be greater than 0. Got 0.0 instead."),
        ({"from_zero": 1.0}, "must be less than 1. Got 1.0 instead."),
        ({"positive": 0}, "must be greater than 0. Got 0 instead."),
        ({"finite": math.inf}, "must be less than inf. Got inf instead."),
        ({"decay": -0.5}, "must be greater than or equal to 0. Got -0.5 instead."),
        ({"choice": "c"}, "must be 'a' or 'b'. Got 'c' instead."),
        (
            {"either": "no way"},
            "must be a valid boolean, unable to interpret input or 'auto'. Got 'no way' instead.",
        ),
        ({"path": "here"}, "must be an absolute path. Got 'here' instead."),
        ({"names": "one"}, "must be a valid list. Got 'one' instead."),
        ({"even": 3}, "is invalid (an odd number). Got 3 instead."),
        ({"choice": "c" * 100}, f"must be 'a' or 'b'. Got '{'c' * 76}... instead."),
    ],
)
def test_the_message_says_what_is_allowed(arguments: dict[str, Any], expected: str) -> None:
    (name,) = arguments
    with pytest.raises(InvalidArgumentsError) as error:
        validate_arguments(MODEL, "calibrator 'mine'", arguments)
    assert str(error.value) == f"The '{name}' parameter of the calibrator 'mine' {expected}"


def test_values_are_converted_to_the_annotated_type_and_otherwise_kept() -> None:
    given = {"count": 3.0, "samples": "4", "share": 0.25, "positive": 2, "finite": 1}
    found = validate_arguments(MODEL, "calibrator 'mine'", given)
    assert list(found) == list(MODEL.model_fields)
    assert [(found[name], type(found[name])) for name in given] == [
        (3, int),
        (4, int),
        (0.25, float),
        (2.0, float),
        (1.0, float),
    ]
