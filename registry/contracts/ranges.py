"""Ranges of numbers, as annotations for constructor arguments and for fields of the grid file."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

__all__ = [
    "Count",
    "FiniteFromZero",
    "FinitePositive",
    "Positive",
    "Seed",
    "Share",
    "ShareOrOne",
    "ShareOrZero",
]

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]

Share = Annotated[float, Field(gt=0, lt=1)]
ShareOrOne = Annotated[float, Field(gt=0, le=1)]
ShareOrZero = Annotated[float, Field(ge=0, lt=1)]

Positive = Annotated[float, Field(gt=0)]
FinitePositive = Annotated[float, Field(gt=0, lt=math.inf)]
FiniteFromZero = Annotated[float, Field(ge=0, lt=math.inf)]
