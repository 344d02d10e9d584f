"""Annotations for the constructor arguments that are more than a number."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

__all__ = ["Layers", "Quantiles", "TargetModules"]


def _distinct(layers: str | tuple[int, ...]) -> str | tuple[int, ...]:
    if len(set(layers)) < len(layers) and not isinstance(layers, str):
        raise ValueError("Each layer must occur once.")
    return layers


def _ascending(levels: tuple[float, ...]) -> tuple[float, ...]:
    if not all(low < high for low, high in pairwise([0.0, *levels, 1.0])):
        raise ValueError("Levels must ascend within (0, 1).")
    return levels


Layers = Annotated[
    Literal["every fourth", "all"]
    | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_distinct)],
    Field(description="'every fourth', 'all' or a list of layers, counted from 0, such as [3, 7]"),
]
TargetModules = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1, description="a list of names, such as ['q_proj', 'v_proj']"),
]
Quantiles = Annotated[
    tuple[float, ...],
    Field(min_length=1, description="levels that ascend within (0, 1)"),
    AfterValidator(_ascending),
]
