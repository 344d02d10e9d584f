"""The site: a page, files in CSV format and figures for each run, and an index of several runs."""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from prmcal.db.catalog import leaderboard, runs
from prmcal.db.html import boards as html
from prmcal.db.metrics import Leaderboard
from prmcal.db.overview.query import league, overview
from prmcal.db.overview.types import League, Overview
from prmcal.db.queries.two_cells import compare_runs
from prmcal.db.reader import reading
from prmcal.db.text import formats
from prmcal.db.text.board import difference_board, web_board
from prmcal.db.text.overview import PURPOSE, measured, tiles
from prmcal.errors import PrmcalError
from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.writer import can_draw, exhibits_of, provenance
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written import WrittenFolder, write_text

_INDEX = "index.html"
_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class _Run:
    """A run of the site.

    `page` is the name of its page, and `prefix` begins the names of its other files.
    """

    name: str
    page: str
    prefix: str
    published: Path
    about: dict[str, Any]
    overview: Overview
    league: League
    frames: dict[Leaderboard, pd.DataFrame]


def write_site(directories: Sequence[Path], out: Path) -> list[Path]:
    """Write the leaderboards of one or more runs as a static site, and return its files, sorted by name.

    If Altair and vl-convert are installed, the site has the figures of the report. With several runs, the first page
    compares them. An earlier site is replaced.

    Raise RunError or DatabaseError if there are no readable results, StorageError if `out` has other files than a site
    (nothing in it is changed then) or cannot be written, and PrmcalError if a database has no run.
    """
    folder = WrittenFolder(out, "site.json", "site", "--html")
    names = _names(directories)
    alone = len(names) == 1
    found = [
        _read(directory, name, _INDEX if alone else f"{name}.html", "" if alone else f"{name}-")
        for name, directory in names.items()
    ]

    def fill(fresh: Path) -> None:
        for run in found:
            write_text(fresh / run.page, _run_page(run, found, fresh))
            for name, frame in run.frames.items():
                table = frame.to_csv(index=False, lineterminator="\n")
                write_text(fresh / f"{run.prefix}{name}.csv", table)
        if not alone:
            write_text(fresh / _INDEX, _index_page(found))

    about = found[0].about if alone else {"runs": {run.name: run.about for run in found}}
    return folder.replace(fill, about)


def _names(directories: Sequence[Path]) -> dict[str, Path]:
    """Return the runs by short names that are also names of files."""
    names: dict[str, Path] = {}
    for directory in dict.fromkeys(each.resolve() for each in directories):
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", directory.name).strip("-.") or "run"
        name, count = plain, 1
        while name in names or name == "index":
            count += 1
            name = f"{plain}-{count}"
        names[name] = directory
    return names


def _read(directory: Path, name: str, page: str, prefix: str) -> _Run:
    published = RunFolder(directory).results()
    with reading(published) as source:
        ran = runs(source)
        if ran.empty:
            raise PrmcalError(f"{directory} has no run to export. Run a grid with this output folder first.")
        frames = {table: leaderboard(source, table) for table in formats.LEADERBOARDS}
        about = provenance(ran.to_dict("records")[-1])
        ranked = overview(source)
        return _Run(name, page, prefix, published, about, ranked, league(source), frames)


def _run_page(run: _Run, found: Sequence[_Run], folder: Path) -> str:
    from markupsafe import Markup

    boards = [
        {
            "name": name,
            "title": formats.LEADERBOARDS[name].title,
            "description": formats.LEADERBOARDS[name].description,
            "data": html.board_json(web_board(frame, name, run.overview.metrics), _row_link(name)),
        }
        for name, frame in run.frames.items()
        if len(frame)
    ]
    return _page(
        "run.html",
        run=run,
        about=run.about,
        others=found if len(found) > 1 else (),
        overview=Markup(html.overview_html(run.overview, _row_link("calibration"))),
        league=Markup(html.league_html(run.league)) if run.league.rows else "",
        boards=boards,
        figures=_figures(run, folder) if len(run.frames["calibration"]) else [],
    )


def _figures(run: _Run, folder: Path) -> list[Chart]:
    """Write the figures of the report, and return them.

    Without Altair and vl-convert there are none.
    """
    if not can_draw():
        return []
    from prmcal.db.charts import svg_of, with_dark_style

    figures = []
    for chart in exhibits_of(read_evidence(run.published)):
        if isinstance(chart, Chart):
            write_text(folder / f"{run.prefix}{chart.name}.svg", with_dark_style(svg_of(chart.picture)))
            figures.append(chart)
    return figures


def _index_page(found: Sequence[_Run]) -> str:
    boards = []
    for place, (first, other) in enumerate(combinations(found, 2), 1):
        for name in formats.LEADERBOARDS:
            compared = compare_runs(first.published, other.published, name)
            if len(compared.both):
                board, key = difference_board(compared, name, first.name, other.name), f"{name}-{place}"
                data = html.board_json(board, _row_link(key))
                boards.append({"name": key, "title": board.title, "data": data})
    summaries = {run.name: (measured(run.overview), tiles(run.overview)) for run in found}
    return _page("runs.html", runs=found, purpose=PURPOSE, summaries=summaries, boards=boards)


def _row_link(board: str) -> Callable[[str], str]:
    return lambda cell_id: f"#{board}.row={quote(cell_id, safe='')}"


def _page(name: str, **contents: Any) -> str:
    script = html.boards_script() if "boards" in contents else ""
    return page(name, html.overview_style(), html.boards_style(), script=script, **contents)


def page(name: str, *styles: str, script: str = "", folder: Path = _HERE, **contents: Any) -> str:
    """Return a page from a template in a folder, which extends ``page.html`` and shows the contents.

    `styles` are CSS besides that of all pages, and `script` is the only JavaScript that the page can run.
    """
    from markupsafe import Markup

    style = "\n".join([(_HERE / "style.css").read_text(encoding="utf-8").rstrip(), *styles])
    # The hashes let a browser run only the script of the page, even if a name or a reason contains another one.
    return html.template(name, folder, _HERE).render(
        **contents,
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
