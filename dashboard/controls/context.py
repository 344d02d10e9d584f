"""What the reader looks at, which follows them from page to page: the run, the filters, and the chosen cell.

A filter keeps several names (parameters ``datasets``, ``llms``, ``prms``, ``calibrators``, ``strategies``), or the
cells that were verified at a tier (``tier``). A choice is one name (``dataset``, ``llm``, ``prm``, ``calibrator``).
They are different things: a filter hides rows of tables, and a choice says which place or cell a page shows. All of it
is in the address, and nowhere else.

A page uses it like this::

    filters = filter_by(grid_names(path), "dataset", "llm", "prm")  # in the sidebar; None where nothing is selected
    found = ask(path, "overview", **filters)
    place = choose_group(path, "scaling")  # or choose_cell(path): selects that offer only what exists
    context_of(path).link("calibration", dataset=..., llm=..., prm=..., calibrator=...)  # a link that keeps the rest

Choices of a single page, such as its metric or its order, are parameters of their own
(:func:`prmcal.dashboard.controls.address.bound`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd

from prmcal.dashboard.controls.address import address_of, given, link
from prmcal.dashboard.controls.selection import FILTERS, TIER, grid_names
from prmcal.dashboard.data import ask
from prmcal.db.metrics import TIERS
from prmcal.errors import DatabaseError

__all__ = ["CELLS", "CHOICES", "RUN", "Context", "context_of", "page_parameters"]

RUN = "run"
"""The parameter with the short name of a run."""

CHOICES = ("dataset", "llm", "prm", "calibrator")
"""The kinds of plugins of which a reader chooses one, in the order of selects. They are also the parameters."""

CELLS = ("cell", "b", "a")
"""Parameters with the identifier of a cell. The first of them that the address has stands for the choice."""


@dataclass(frozen=True)
class Context:
    """The part of the address that all pages share.

    Attributes
    ----------
    run : str or None
        The short name of the run; None for the first run of the server.
    filters : dict
        The names that tables keep, by kind. A kind without a filter is left out.
    choice : dict
        The chosen name of each kind of :data:`CHOICES`. A kind of which nothing was chosen is left out.
    tier : str or None
        The lowest tier of verification whose cells tables keep; None for all cells.
    """

    run: str | None = None
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    choice: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None

    def parameters(self) -> dict[str, str | Sequence[str]]:
        """Return the query parameters of this context."""
        return {
            **({RUN: self.run} if self.run else {}),
            **({TIER: self.tier} if self.tier else {}),
            **{FILTERS[kind]: list(names) for kind, names in self.filters.items()},
            **self.choice,
        }

    def wanted(self) -> dict[str, Sequence[str]]:
        """Return the names that pages show first, by kind: the chosen one, or those that a filter keeps."""
        return {**self.filters, **{kind: [name] for kind, name in self.choice.items()}}

    def link(self, page: str, /, **state: str | Sequence[str] | None) -> str:
        """Return the address of a page that shows this context, changed by some parameters."""
        return link(page, **{**self.parameters(), **state})


def context_of(path: Path) -> Context:
    """Read the context from the address, without names that the run does not have.

    Parameters
    ----------
    path : Path
        The published copy of the run.
    """
    run = given(RUN)[-1] if given(RUN) else None
    try:
        names = asdict(grid_names(path))
        cells: pd.DataFrame = ask(path, "cells")
    except DatabaseError:
        return Context(run)
    filters = {
        kind: [name for name in given(parameter) if name in names[kind]]
        for kind, parameter in FILTERS.items()
    }
    choice = {**_choice_of_cell(cells), **{kind: given(kind)[-1] for kind in CHOICES if given(kind)}}
    return Context(
        run,
        {kind: kept for kind, kept in filters.items() if kept},
        {kind: choice[kind] for kind in CHOICES if choice.get(kind) in names[kind]},
        next((tier for tier in given(TIER) if tier in TIERS and ask(path, "is_merged")), None),
    )


def page_parameters() -> dict[str, list[str]]:
    """Return the parameters of the address that belong to the page and not to the context."""
    shared = {RUN, TIER, *FILTERS.values(), *CHOICES}
    return {name: values for name, values in address_of().items() if name not in shared}


def _choice_of_cell(cells: pd.DataFrame) -> dict[str, str]:
    """Return the names of the cell whose identifier the address has. Return no names for an unknown identifier."""
    wanted = next((given(parameter)[-1] for parameter in CELLS if given(parameter)), None)
    rows = cells[cells["cell_id"] == wanted].to_dict("records") if wanted else []
    return {kind: row[kind] for row in rows for kind in CHOICES if isinstance(row[kind], str)}
