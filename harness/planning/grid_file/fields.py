"""Types of the fields of a grid file, with their limits.

The upper limits are far above what a machine can run. With larger numbers a plan alone would take hours.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from prmcal.db.metrics import COORDINATES, SCALING, with_terminal
from prmcal.harness.storage.keys import content_key
from prmcal.registry.contracts.plugin import Share

__all__ = [
    "Arguments",
    "Bins",
    "Chosen",
    "Entries",
    "FollowUps",
    "MetricName",
    "MostPrefixes",
    "Name",
    "Number",
    "Replicates",
]
__all__ += ["Seed", "Shares", "StrategyName", "Text"]

_MOST = 1_000_000

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
StrategyName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9 @._+-]*$")]


def _free_column(name: str) -> str:
    taken = {*COORDINATES, *_OTHER_COLUMNS, *(metric.name for metric in SCALING)}
    ending = next((end for end in _ENDINGS if name.endswith(end)), "")
    if name in taken or ending:
        raise ValueError(
            f"leaderboards have other columns {f'that end in {ending}' if ending else 'of this name'}"
        )
    return name


_OTHER_COLUMNS = ("cell_id", "number", "rows", "questions", "status", "reason")
_ENDINGS = ("_low", "_high", "_standing", "_letters", with_terminal(""))
MetricName = Annotated[Name, AfterValidator(_free_column)]
"""The name of a column. Its interval, standing and letters are columns of their own."""
Text = Annotated[str, Field(max_length=200)]
"""A name that plugins give: of a plugin, or of a split."""
Chosen = Annotated[list[Name], Field(min_length=1, max_length=1000)] | None
"""The names of the entries that another entry is restricted to; None for all."""
Entries = Field(min_length=1, max_length=1000)
"""The length of a list of plugins."""

Number = Annotated[int, Field(ge=1, le=_MOST)]
"""A number of questions, trajectories, follow-ups or tokens."""
FollowUps = Annotated[int, Field(ge=2, le=_MOST)]
MostPrefixes = Annotated[int, Field(ge=2, le=_MOST)] | None
"""The largest number of prefixes of a trajectory that are followed up, its ends included; None for all."""
Bins = Annotated[int, Field(ge=1, le=10_000)]
Replicates = Annotated[int, Field(ge=100, le=100_000)]
Seed = Annotated[int, Field(ge=0, le=10**18)]
Shares = Annotated[list[Share], Field(min_length=1, max_length=100)]


def _data_of_keys(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        content_key(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            "only texts, finite numbers, true, false, null, and lists and mappings of them can be arguments. Write "
            "dates in quotation marks"
        ) from error
    return arguments


Arguments = Annotated[dict[str, Any], AfterValidator(_data_of_keys)]
"""The constructor arguments of a plugin: data that a key can be made from."""
