"""The ranking of an overview as a table for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prmcal.db.overview.types import Overview

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ranking_frame"]


def ranking_frame(found: Overview) -> pd.DataFrame:
    """Return the ranking with one row per calibrator.

    Returns
    -------
    DataFrame
        The attributes of :class:`prmcal.db.overview.types.Standing`. A quantity takes three columns, such as
        ``mean_rank``, ``mean_rank_low`` and ``mean_rank_high``. Those of a gain begin with ``gain_``.
    """
    import pandas as pd

    return pd.DataFrame([dict(_columns(asdict(each))) for each in found.ranking])


def _columns(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if not isinstance(value, Mapping):
            yield prefix + name, value
        elif value.keys() == {"value", "low", "high"}:
            yield from (
                (prefix + name + end, value[part])
                for end, part in (("", "value"), ("_low", "low"), ("_high", "high"))
            )
        else:
            yield from _columns(value, "" if name == "errors" else f"{prefix}{name}_")
