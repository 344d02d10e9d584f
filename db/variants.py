"""Variants: plugins of a merged leaderboard that have one name in the grids.

Such are ``weak (seed 1)`` and ``weak (seed 2)``. A run has none, because its names are those of its grid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa

from prmcal.db.reader import Source, frame
from prmcal.db.tables import Cell, CellSubmission, Plugin

__all__ = ["base_names", "names_among", "other_names"]


def base_names(source: Source) -> dict[tuple[str, str], str]:
    """Return the names in the grids of all variants, by their kinds and their names on the leaderboard."""
    query = sa.select(Plugin.kind, Plugin.name, Plugin.base_name).where(Plugin.base_name.is_not(None))
    found = frame(source, query)
    keys = zip(found["kind"], found["name"], strict=True)
    return dict(zip(keys, found["base_name"], strict=True))


def other_names(source: Source) -> dict[str, tuple[str, ...]]:
    """Return for each LLM the other names that it has in its submissions, sorted.

    A submission can have two names of one LLM: ``weak`` on the calibration leaderboard and ``weak (samples 64)`` on the
    scaling leaderboard, if only the size of the pool differs from other submissions.
    """
    base = sa.func.coalesce(Plugin.base_name, Plugin.name).label("base")
    query = (
        sa.select(Cell.llm, base, CellSubmission.submission_id)
        .join(CellSubmission, CellSubmission.cell_id == Cell.cell_id)
        .join(Plugin, sa.and_(Plugin.kind == "llm", Plugin.name == Cell.llm))
        .distinct()
    )
    found: dict[str, set[str]] = {}
    for _, names in frame(source, query).groupby(["base", "submission_id"])["llm"]:
        for name in names:
            found.setdefault(name, set()).update(set(names) - {name})
    return {name: tuple(sorted(others)) for name, others in found.items() if others}


def names_among(
    there: Collection[str], wanted: Iterable[str], others: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the wanted names of LLMs that are there. For one that is not, return the others that it has.

    Parameters
    ----------
    there : collection of str
        The names on a leaderboard.
    wanted : iterable of str
    others : mapping of str to sequence of str
        See :func:`other_names`.
    """
    return [each for name in wanted for each in ([name] if name in there else others.get(name, ()))]
