"""The site: a page, files in CSV format and figures for each run, and an index of several runs."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from prmcal.db.catalog import leaderboard, runs, submissions, verifications
from prmcal.db.html import boards as html
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.overview.query import league, overview
from prmcal.db.overview.types import League, Overview
from prmcal.db.queries.two_cells import compare_runs
from prmcal.db.reader import Source, reading
from prmcal.db.text import formats
from prmcal.db.text.board import difference_board, web_board
from prmcal.db.text.overview import PURPOSE, measured, tiles
from prmcal.errors import PrmcalError
from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.writer import can_draw, exhibits_of, provenance
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written import WrittenFolder, write_text
from prmcal.registry.messages import excerpt

_INDEX = "index.html"
_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class _Run:
    """A run of the site, or a merged leaderboard, which has submissions.

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
    submissions: list[dict[str, Any]]


def write_site(directories: Sequence[Path], out: Path) -> list[Path]:
    """Write the leaderboards of one or more runs as a static site, and return its files, sorted by name.

    The page of a merged leaderboard has an index of its submissions, each with a page of its own. If Altair and
    vl-convert are installed, the site has the figures of the report. With several runs, the first page compares them.
    An earlier site is replaced.

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
            for submission in run.submissions:
                page = _page("submission.html", run=run, submission=submission)
                write_text(fresh / submission["page"], page)
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
        sent = _submissions(source, frames, ranked.metrics, page, prefix)
        if sent:
            about["grid"] = ", ".join(dict.fromkeys(ran["grid_name"]))
        return _Run(name, page, prefix, published, about, ranked, league(source), frames, sent)


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
        tiers=formats.TIER_MEANINGS,
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


def _submissions(
    source: Source, frames: Mapping[Leaderboard, pd.DataFrame], described: Metrics, page: str, prefix: str
) -> list[dict[str, Any]]:
    """Return what the site says of each submission of a merged leaderboard; nothing for the database of a run.

    Each has its columns, with texts on one line, the name of its page, whose it is, the highest tier of verification
    in words, its rows on each leaderboard, and its verifications with their checks.
    """
    checked = verifications(source).to_dict("records")
    found = []
    for row in submissions(source).to_dict("records"):
        own = row["submission_id"]
        found.append(
            {
                **{name: excerpt(each) if isinstance(each, str) else each for name, each in row.items()},
                "page": f"{prefix}submission-{own}.html",
                "name": excerpt(row["submitter"] or f"run {row['run_id']}"),
                "verified": formats.verified_text(
                    row["tier"], row["verified_by"], row["verified_at"], row["failed"]
                ),
                "boards": [
                    _rows_of(cells, name, described, page)
                    for name, frame in frames.items()
                    for cells in [frame[[own in each.split() for each in frame["submissions"]]]]
                    if len(cells)
                ],
                "verifications": [each for each in checked if each["submission_id"] == own],
            }
        )
    return found


def _rows_of(cells: pd.DataFrame, table: Leaderboard, described: Metrics, page: str) -> dict[str, Any]:
    """Return the rows of a submission on a leaderboard. Who verified them, and how to renew them, stands apart."""
    shown = [
        name
        for name in formats.LEADERBOARDS[table].main_metrics
        if name in cells and cells[name].notna().any()
    ]
    board = web_board(cells, table, described, shown)
    columns = [each for each in board.columns if each.key not in ("number", "tier", "outdated")]
    values = {each.key: each.values for each in board.columns}
    rows = [
        {
            "number": values["number"][place],
            "link": f"{page}{_row_link(table)(cell['cell_id'])}",
            "texts": [(each.values[place], bool(each.numbers)) for each in columns],
            "verified": values["tier"][place],
            "outdated": values["outdated"][place] if "outdated" in values else "",
            "renewal": formats.renewal(cell),
        }
        for place, cell in enumerate(cells.to_dict("records"))
    ]
    heads = [each.title for each in columns]
    return {"title": formats.LEADERBOARDS[table].title, "legend": board.legend, "heads": heads, "rows": rows}


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
