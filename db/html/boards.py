"""The overview and the league as HTML, for the pages of a run. Texts are escaped by the templates."""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import PLACE
from prmcal.db.overview.types import League, Overview
from prmcal.db.text import overview
from prmcal.db.text.formats import SYMBOLS, interval, missing, number, standings_legend

if TYPE_CHECKING:
    from jinja2 import Template

_HERE = Path(__file__).parent
# The colours of the heat map from much better to worse than uncalibrated. Black text has a contrast of at least 7 on
# each of them, so they are the same on light and on dark pages.
_STEPS = (
    (0.1, "#7FC4E8"),
    (0.25, "#A6D5EE"),
    (0.5, "#CBE6F5"),
    (0.9, "#E9F3F8"),
    (1.1, "#F1F1F1"),
    (math.inf, "#F7CBA4"),
)
_NO_BREAK = "\N{NO-BREAK SPACE}"


def overview_html(found: Overview, link: Callable[[str], str]) -> str:
    """Return tiles, ranking and heat map as a fragment of HTML, which :func:`overview_style` styles.

    `link` gives the address of a calibration cell by its identifier. An empty address makes no link.
    """
    board = overview.ranking_board(found)
    calibrators = list(dict.fromkeys(found.cells["calibrator"]))
    return template("overview.html").render(
        purpose=overview.PURPOSE,
        measured=overview.measured(found),
        tiles=overview.tiles(found),
        columns=board.columns if found.ranking else (),
        rows=board.rows,
        legend=board.legend,
        score=overview.SCORE,
        calibrators=calibrators,
        places=_places(found, calibrators, link),
        steps=[_step_text(index) for index in range(len(_STEPS))],
        marks=standings_legend({name: SYMBOLS[name] for name in ("best", "tied")}, "its row"),
    )


def overview_style() -> str:
    """Return the style of the fragment. The page sets ``--ov-page`` to its background colour."""
    colours = [
        f".ov .ov-{index} {{ background: {colour}; color: #000; }}"
        for index, (_, colour) in enumerate(_STEPS)
    ]
    return "\n".join([(_HERE / "overview.css").read_text(encoding="utf-8").rstrip(), *colours])


@cache
def template(name: str, *folders: Path) -> "Template":
    """Return a template of this folder, or of other ones, the first of which has it or what it extends."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folders or _HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = _typeset
    environment.filters["split_interval"] = _split_interval
    return environment.get_template(name)


def _typeset(text: str) -> str:
    """Put true minus signs before numbers, and keep the ends of an interval on one line."""
    signed = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)
    return re.sub(r"(\[\S+,) (\S+\])", rf"\1{_NO_BREAK}\2", signed)


def _split_interval(text: str) -> Any:
    """Put the interval of an estimate on a line of its own."""
    from markupsafe import Markup

    value, bracket, ends = text.partition(" [")
    return Markup('{}<span class="ov-ends">[{}</span>').format(value, ends) if bracket else text


def _places(found: Overview, calibrators: list[str], link: Callable[[str], str]) -> list[dict[str, Any]]:
    places: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in found.cells.to_dict("records"):
        places.setdefault(tuple(row[name] for name in PLACE), {})[row["calibrator"]] = row
    rows = []
    for names, by_calibrator in places.items():
        cells = [_heat_cell(by_calibrator.get(name), link) for name in calibrators]
        rows.append({"names": names, "cells": cells})
    return rows


def _heat_cell(row: dict[str, Any] | None, link: Callable[[str], str]) -> dict[str, Any]:
    if row is None:
        return {"text": "", "title": "The grid does not have this cell.", "link": "", "step": None}
    found: dict[str, Any] = {"link": link(row["cell_id"]), "step": None}
    if missing(row["value"]):
        return {**found, "text": row["status"], "title": f"This cell is {row['status']}."}
    shown = SYMBOLS[row["standing"]] if row["standing"] in ("best", "tied") else ""
    title = f"95% interval {interval(row['low'], row['high'])}"
    if not missing(row["ratio"]):
        title += f", {number(row['ratio'], 2)} times uncalibrated"
        found["step"] = next(index for index, (limit, _) in enumerate(_STEPS) if row["ratio"] < limit)
    return {**found, "text": f"{shown}{_NO_BREAK}{number(row['value'])}".strip(), "title": title}


def _step_text(index: int) -> str:
    limit = _STEPS[index][0]
    if limit == math.inf:
        return f"over {_STEPS[index - 1][0]:g}"
    return f"{'to' if index else 'under'} {limit:g}"


def league_html(found: League) -> str:
    """Return the sentence and the ranking as a fragment of HTML.

    It is styled by :func:`prmcal.db.html.boards.overview_style`. The calibrator stands below its strategy, so that a
    phone shows the gain beside them.
    """
    board = overview.league_board(found)
    rank, strategy, *others = board.columns
    calibrators = next((each for each in others if each.title == "Calibrator"), None)
    numbers = [each for each in others if each is not calibrators]
    below = calibrators.values if calibrators else ("",) * len(found.rows)
    values = zip(*(each.values for each in numbers), strict=True)
    return template("league.html").render(
        purpose=overview.LEAGUE_PURPOSE,
        measured=overview.league_measured(found),
        sentence=overview.league_sentence(found),
        columns=[rank, strategy, *numbers],
        rows=list(zip(rank.values, strategy.values, below, values, strict=True)),
        legend=board.legend,
    )
