"""The page of a run: overview, leaderboards, league, figures and provenance in one file of HTML."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from prmcal.db.catalog import leaderboard, metrics, runs
from prmcal.db.catalog import reliability as reliability_bins
from prmcal.db.html import boards as html
from prmcal.db.overview.competition import before_and_after, of_calibrators
from prmcal.db.overview.query import league, overview
from prmcal.db.overview.types import Overview
from prmcal.db.reader import Source, reading
from prmcal.db.text.answer import QUESTION
from prmcal.db.text.board import web_board
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.errors import PrmcalError
from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.writer import can_draw
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import write_atomically

_HERE = Path(__file__).parent
_SQUARE = 180  # points


def write_page(directory: Path, out: Path) -> None:
    """Write the results of a run as one page, whose name ends in ``.html``. A file of this name is replaced.

    If Altair and vl-convert are installed, the page has the figures of the report.

    Raise RunError or DatabaseError if there are no readable results, StorageError if the file cannot be written, and
    PrmcalError if the name does not end in ``.html`` or the database has no run.
    """
    if out.suffix != ".html":
        raise PrmcalError(f"--html must end in .html. Got '{out}'.")
    published = RunFolder(directory).results()
    with reading(published) as source:
        run_table = runs(source)
        if run_table.empty:
            raise PrmcalError(f"{directory} has no run to export. Run a grid with this output folder first.")
        frames, described_metrics = {name: leaderboard(source, name) for name in LEADERBOARDS}, metrics(source)
        ranked, strategies = overview(source), league(source)
    competition = of_calibrators(ranked)
    tables = [
        {
            "name": name,
            "title": LEADERBOARDS[name].title,
            "description": LEADERBOARDS[name].description,
            "cells": _safe(html.cells_html(web_board(frame, name, described_metrics), row=_row_link(name), hide=True)),
            "csv": base64.b64encode(frame.to_csv(index=False, lineterminator="\n").encode()).decode(),
        }
        for name, frame in frames.items()
        if len(frame)
    ]
    figures, styles = _figures(published, ranked) if can_draw() and len(frames["calibration"]) else ([], [])
    text = page(
        "run.html",
        html.style(),
        *styles,
        script=(_HERE / "boards.js").read_text(encoding="utf-8").rstrip(),
        question=QUESTION,
        run=run_table.to_dict("records")[-1],
        answer=_safe(html.answer_html(ranked)),
        cards=_safe(html.cards_html(ranked)),
        settings=_settings(published, ranked) if can_draw() else [],
        ranking=_safe(html.ranking_html(ranked, competition, lambda name: "")),
        competition=_safe(
            html.competition_html(competition, competition.rows, cell=_row_link("calibration"), row=lambda name: "")
        ),
        league=_safe(html.league_html(strategies)) if strategies.rows else "",
        boards=tables,
        figures=figures,
    )
    write_atomically(out, text)


def _settings(source: Source, ranked: Overview) -> list[dict[str, Any]]:
    """Return the picture of each setting, before and after its repair by the first calibrator of the ranking."""
    from prmcal.db.charts import legend, series_of, styled, svg_of
    from prmcal.db.pictures import points_of, reliability

    pictures = []
    for names, cells in before_and_after(ranked).items():
        bins = [reliability_bins(source, cell).assign(calibrator=name) for name, cell in cells.items()]
        key = legend(list(cells), lines=False, width=_SQUARE)
        picture = reliability(points_of(pd.concat(bins)), series_of(list(cells), list(cells)), key)
        picture = styled(picture.properties(width=_SQUARE, height=_SQUARE))
        pictures.append({"name": " · ".join(names), "svg": _safe(svg_of(picture))})
    return pictures


def _row_link(board: str) -> Callable[[str], str]:
    return lambda cell_id: f"#{board}.row={quote(cell_id, safe='')}"


def _figures(published: Path, ranked: Overview) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of the report, each with its title, its caption and its SVG, and their styles."""
    from prmcal.db.charts import style_sheet, svg_of
    from prmcal.harness.report.figures import figures

    pictures = [
        {"title": figure.title, "caption": figure.caption, "svg": _safe(svg_of(figure.picture))}
        for figure in figures(read_evidence(published, ranked))
    ]
    return pictures, [style_sheet()] if pictures else []


def page(name: str, *styles: str, script: str = "", folder: Path = _HERE, **contents: Any) -> str:
    """Return a page from a template in a folder, which extends ``page.html`` and shows the contents.

    `styles` are further CSS, and `script` is the only JavaScript that the page can run.
    """
    style = "\n".join([(_HERE / "style.css").read_text(encoding="utf-8").rstrip(), *styles])
    # The hashes let a browser run only the script of the page, even if a name or a reason contains another one.
    return html.template(name, folder, _HERE).render(
        **contents, style=_safe(style), script=_safe(script), style_hash=_digest(style), script_hash=_digest(script)
    )


def _safe(text: str) -> Any:
    """Mark a text as HTML, so that a template does not escape it again."""
    from markupsafe import Markup

    return Markup(text)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
