"""Choosing a cell, or a place (data set, LLM and PRM), by selects that offer only what the run has.

Each select offers the names that go with those before it. If the reader changes one name and the run does not have the
new combination, the page takes the cell with that name which has most of the others.

Calibration cells and places are the choice of the context. Any cell of both leaderboards is picked by
:func:`pick_cell` and named by its identifier in a parameter of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.cells import first_with
from prmcal.dashboard.controls.address import PAGE, given, note, seed, widget_key, write_address
from prmcal.dashboard.controls.context import CELLS, CHOICES, context_of
from prmcal.dashboard.data import ask
from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.errors import UnknownCellError

_PLACE = ("dataset", "llm", "prm")
_COORDINATES = ("dataset", "llm", "strategy", "prm", "calibrator", "target", "level")
_NONE = "none"
# What names a thing within the chosen data set or LLM, and does not exist in another one.
_BELOW = {"dataset": ("question", "trajectory"), "llm": ("trajectory",), "prm": (), "calibrator": ()}


def choose_cell(path: Path) -> dict[str, Any] | None:
    """Let the reader choose a cell of the calibration leaderboard by its data set, LLM, PRM and calibrator.

    Returns
    -------
    dict or None
        The cell: cell_id, llm, prm, calibrator, dataset, status, reason. None if the run has no such cells.
    """
    cells: pd.DataFrame = ask(catalog.cells, path)
    cells = cells[cells["leaderboard"] == "calibration"]
    return None if cells.empty else _choose(path, cells, CHOICES)


def choose_group(path: Path, leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose a place: one data set, one LLM and one PRM. Return None if the run has none.

    It offers the places of a leaderboard, or those of the others if this one has none.
    """
    return choose_of(path, _PLACE, leaderboard)


def choose_of(path: Path, kinds: Sequence[str], leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose one name of each of these kinds. Return None if no cell has a name of each."""
    cells: pd.DataFrame = ask(catalog.cells, path)
    named = cells.dropna(subset=list(kinds))
    if named.empty:
        return None
    own = named[named["leaderboard"] == leaderboard]
    places = (named if own.empty else own).drop_duplicates(list(kinds))
    chosen = _choose(path, places, kinds)
    return {kind: str(chosen[kind]) for kind in kinds}


def pick_cell(
    cells: pd.DataFrame,
    parameter: str,
    default: str,
    *,
    label: str = "",
    fixed: Sequence[str] = (),
    resets: Sequence[str] = (),
) -> dict[str, Any]:
    """Let the reader pick one of these cells, whose identifier the parameter has.

    Parameters
    ----------
    cells : DataFrame
        Rows of the table ``cells``, of one leaderboard.
    parameter : str
        The query parameter.
    default : str
        The identifier of the cell that the address does not name.
    label : str
        What tells the selects from those of another cell.
    fixed : sequence of str
        Coordinates that the reader cannot change.
    resets : sequence of str
        Parameters that are removed when the reader picks another cell.

    Returns
    -------
    dict
        The row of the cell.
    """
    wanted = (given(parameter) or [default])[-1]
    found = cells[cells["cell_id"] == wanted]
    if found.empty:
        note(f"There is no cell {wanted!r} to choose here. The page shows {default!r} instead.")
        found = cells[cells["cell_id"] == default]
    shown = dict(found.iloc[0])

    def write(row: Mapping[str, Any], _: str) -> None:
        changed = None if row["cell_id"] == default else row["cell_id"]
        write_address({**dict.fromkeys(resets), parameter: changed})

    _selects(cells, shown, _COORDINATES, label, fixed, write)
    return shown


def _choose(path: Path, cells: pd.DataFrame, kinds: Sequence[str]) -> dict[str, Any]:
    """Show a select for each kind, and write what the reader chooses into the context."""
    context = context_of(path)
    filters = names_here(path, cells, context.filters)
    default = first_with(cells, kinds, filters)
    _note_unknown_cell(path)
    asked = {**context.choice, **{kind: given(kind)[-1] for kind in kinds if given(kind)}}
    chosen_here = names_here(path, cells, {kind: [name] for kind, name in asked.items()})
    shown = first_with(cells, kinds, {**filters, **chosen_here})
    missed = {kind: asked[kind] for kind in kinds if kind in asked and shown[kind] not in chosen_here[kind]}
    if missed:
        names = ", ".join(f"{COORDINATE_TITLES[kind]} {name!r}" for kind, name in missed.items())
        instead = ", ".join(f"{COORDINATE_TITLES[kind]} {shown[kind]!r}" for kind in missed)
        note(f"There is no cell with {names} here. The page shows {instead} instead.")

    def write(row: Mapping[str, Any], changed: str) -> None:
        chosen = {kind: None if row[kind] == default[kind] else row[kind] for kind in kinds}
        dropped = (*CELLS, *_BELOW[changed], PAGE)
        write_address({**dict.fromkeys(dropped), **context.choice, **chosen})

    _selects(cells, shown, kinds, "", (), write)
    return shown


def names_here(
    path: Path, cells: pd.DataFrame, names: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return names without those of LLMs that these cells lack."""
    here = set(cells["llm"])
    return {
        kind: [name for name in chosen if name in here] if kind == "llm" else chosen
        for kind, chosen in names.items()
    }


def _note_unknown_cell(path: Path) -> None:
    """Say if the run does not have the cell that the address names by its identifier."""
    for wanted in given("cell"):
        try:
            ask(catalog.calibration_cell, path, cell_id=wanted)
        except UnknownCellError as error:
            note(f"{error} The page shows another cell instead.")


def _selects(
    cells: pd.DataFrame,
    shown: Mapping[str, Any],
    kinds: Sequence[str],
    label: str,
    fixed: Sequence[str],
    write: Callable[[Mapping[str, Any], str], None],
) -> None:
    """Show one select for each kind that these cells have. Call `write` with the new cell and the changed kind."""
    texts = pd.DataFrame({kind: [_text(value) for value in cells[kind]] for kind in kinds}, cells.index)
    current = {kind: _text(shown[kind]) for kind in kinds}
    used = [kind for kind in kinds if set(texts[kind]) != {_NONE}]
    keys = {kind: widget_key(f"select {label} {kind}") for kind in used}

    def changed(kind: str) -> None:
        wanted = {**current, kind: st.session_state[keys[kind]]}
        left = texts
        for each in used[: used.index(kind) + 1]:
            left = left[left[each] == wanted[each]]
        matches = sum((left[each] == wanted[each]).astype(int) for each in used)
        write(dict(cells.loc[pd.Series(matches, left.index).idxmax()]), kind)

    left = texts
    for column, kind in zip(st.columns(len(used)), used, strict=True):
        options = list(dict.fromkeys(left[kind]))
        seed(keys[kind], current[kind])
        column.selectbox(
            f"{label}{COORDINATE_TITLES[kind]}",
            options,
            key=keys[kind],
            on_change=changed,
            args=(kind,),
            disabled=kind in fixed,
        )
        left = left[left[kind] == current[kind]]


def _text(value: Any) -> str:
    if value is None or pd.isna(value):
        return _NONE
    return value if isinstance(value, str) else f"{value:g}"
