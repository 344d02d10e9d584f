"""The answer of a run, its leaderboard and its league as HTML, for the pages of a run. Templates escape all texts."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.overview.competition import CellEstimate, Competition, Competitor
from prmcal.db.overview.types import League, Overview
from prmcal.db.text import answer, overview
from prmcal.db.text.board import Board
from prmcal.db.text.formats import SYMBOLS, interval, number, typeset

if TYPE_CHECKING:
    from jinja2 import Template

_HERE = Path(__file__).parent
# The colours of the heat map from much better to worse than the reference. Black text has a contrast of at least 7 on
# each of them, so they are the same on light and on dark pages.
_STEPS = (
    (0.1, "#7FC4E8"),
    (0.25, "#A6D5EE"),
    (0.5, "#CBE6F5"),
    (0.9, "#E9F3F8"),
    (1.1, "#F1F1F1"),
    (math.inf, "#F7CBA4"),
)
_TICKS, _LOWEST = 6, -0.5  # an interval of a share may end far below 0
Link = Callable[[str], str]
"""The address of a name or of an identifier; an empty address makes no link."""


def answer_html(ranked: Overview) -> str:
    """Return the answer of a run in one sentence, and how much was measured."""
    return template("answer.html").render(answer=answer.answer(ranked), extent=answer.extent(ranked))


def cards_html(ranked: Overview) -> str:
    """Return three cards: the error of the scores, the repair by calibration, and the samples saved."""
    return template("cards.html").render(cards=overview.cards(ranked))


def ranking_html(ranked: Overview, board: Competition, link: Link) -> str:
    """Return the calibrators as dots with intervals, with ties in brackets, and the cautions, folded.

    `link` gives the address of a calibrator by its name.
    """
    rows = [*board.rows, *([board.reference] if board.reference else [])]
    rows = sorted((row for row in rows if row.rank), key=lambda row: row.rank.rank if row.rank else 0)
    return template("ranking.html").render(
        winner=answer.winner(board),
        title=answer.MEAN_TITLES[board.kind],
        ticks=_axis(board, rows)[2],
        rows=_lines(board, rows, link),
        cautions=answer.cautions(ranked),
    )


def competition_html(
    board: Competition,
    rows: Sequence[Competitor],
    *,
    cell: Link,
    row: Link,
    sort: Callable[[str], str] = lambda _: "",
    chosen: Sequence[str] = (),
) -> str:
    """Return a leaderboard: a line with an interval and a heat cell for each setting.

    `rows` are the rows to show, in their order. Three functions return addresses: `cell` of a cell by its identifier,
    `row` of a row by its name, and `sort` of the order by a column: "name", "mean", or the number of a setting. The
    rows `chosen` are marked.
    """
    all_rows = [*([board.reference] if board.reference else []), *rows]
    lines = _lines(board, all_rows, row)
    for line, competitor in zip(lines, all_rows, strict=True):
        line["cells"] = [_heat_cell(board, competitor.cells.get(names), cell) for names in board.settings]
        line["chosen"] = competitor.name in chosen
    return template("competition.html").render(
        kind=board.kind,
        title=answer.MEAN_TITLES[board.kind],
        ticks=_axis(board, all_rows)[2],
        settings=answer.settings(board),
        sort=sort,
        rows=lines,
        steps=[_step_text(index) for index in range(len(_STEPS))],
        against=board.reference.name if board.reference else "",
    )


def cells_html(
    board: Board,
    *,
    row: Link,
    sort: Link = lambda _: "",
    sorted_by: str = "",
    chosen: Sequence[str] = (),
    hide: bool = False,
) -> str:
    """Return a table of cells, one column for each metric with its interval in it.

    `row` returns the address that chooses a cell by its identifier, and `sort` the address of the order by a column's
    key. With `hide`, a page can hide the columns that only some readers want.
    """
    return template("cells.html").render(
        title=board.title,
        hide=hide,
        columns=board.columns,
        rows=list(zip(board.cells, board.rows, strict=True)),
        row=row,
        sort=sort,
        sorted=sorted_by.removeprefix("-"),
        descending=sorted_by.startswith("-"),
        chosen=chosen,
        legend=board.legend,
    )


def style() -> str:
    """Return the style of all fragments. The page sets ``--ov-page`` to its background colour."""
    colours = [f".ov .ov-{index} {{ background: {colour}; color: #000; }}" for index, (_, colour) in enumerate(_STEPS)]
    return "\n".join([(_HERE / "style.css").read_text(encoding="utf-8").rstrip(), *colours])


@cache
def template(name: str, *folders: Path) -> "Template":
    """Return a template from this folder or from others. The first folder must have the template or its parent."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folders or _HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    environment.filters["split_interval"] = _split_interval
    return environment.get_template(name)


def _split_interval(text: str) -> Any:
    """Put the interval of an estimate on a line of its own."""
    from markupsafe import Markup

    value, bracket, ends = text.partition(" [")
    return Markup('{}<span class="ov-ends">[{}</span>').format(value, ends) if bracket else text


def _axis(board: Competition, rows: Sequence[Competitor]) -> tuple[float, float, list[dict[str, str]]]:
    """Return the ends of the common axis of intervals, which contains 0, and the positions and texts of its ticks."""
    means = [row.mean for row in rows if row.mean is not None]
    low = max(_LOWEST, min([0.0, *(mean.low for mean in means if mean.low == mean.low)]))
    high = max([0.01, *(max(mean.value, mean.high) for mean in means if mean.high == mean.high)])
    steps = [factor * 10.0**power for power in range(-3, 1) for factor in (1, 2, 2.5, 5)]
    step = next((step for step in steps if (high - low) / step <= _TICKS), 1.0)
    ticks = [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]
    factor, unit = {"calibrator": (100, "%"), "strategy": (100, "")}.get(board.kind, (1, ""))
    return low, high, [{"at": _percent(at, low, high), "text": f"{factor * at:g}{unit}"} for at in ticks]


def _percent(value: float, low: float, high: float) -> str:
    share = (min(max(value, low), high) - low) / (high - low)
    return f"{2 + 96 * share:.2f}%"


def _lines(board: Competition, rows: Sequence[Competitor], link: Link) -> list[dict[str, Any]]:
    """Return the values of each row for a template."""
    low, high, _ = _axis(board, rows)
    leaders, lines = board.leaders, []
    ranks = [row.rank.rank for row in rows if row.rank and (row is not board.reference or row is rows[-1])]
    ordered = ranks == sorted(ranks)  # in another order there are no brackets
    brackets = [row.rank.bracket if row.rank and ordered else None for row in rows]
    for position, row in enumerate(rows):
        bracket, mean = brackets[position], row.mean
        before, after = brackets[position - 1] if position else None, [*brackets, None][position + 1]
        classes = ""
        if bracket is not None and bracket in (before, after):
            classes = f"ov-middle{' ov-top' if bracket != before else ''}{' ov-bottom' if bracket != after else ''}"
        points = None
        if mean is not None and mean.value == mean.value:
            ends = (mean.low, mean.high) if mean.low == mean.low else (mean.value, mean.value)
            values = (0.0, ends[0], mean.value, ends[1])
            points = [_percent(value, low, high) for value in values]
        lines.append(
            {
                "name": row.name,
                "rank": overview.rank_text(row.rank) if row.rank else "-",
                "link": link(row.name),
                "bracket": classes,
                "drawn": points,
                "zero": _percent(0.0, low, high),
                "text": answer.mean_text(board, row),
                "leads": row in leaders,
                "title": overview.tests_text(row.outcomes) if row.outcomes else "",
            }
        )
    return lines


def _heat_cell(board: Competition, cell: CellEstimate | None, link: Link) -> dict[str, Any]:
    """Return the words and the colour step of a cell. Cells without a value or a ratio have no colour."""
    if cell is None:
        return {"text": "", "title": "The grid does not have this cell.", "link": "", "step": None}
    shown: dict[str, Any] = {"link": link(cell.cell_id), "step": None}
    if math.isnan(cell.value):
        return {**shown, "text": cell.status, "title": f"This cell is {cell.status}."}
    gain = board.kind == "strategy"
    value = number(100 * cell.value, 1, signed=True) if gain else number(cell.value)
    ends = interval(100 * cell.low, 100 * cell.high, 1) if gain else interval(cell.low, cell.high)
    mark = SYMBOLS[cell.standing] if cell.standing in ("best", "tied") else ""
    title = " ".join(filter(None, [mark, value, ends])).strip()
    if not math.isnan(cell.ratio):
        shown["step"] = next(index for index, (limit, _) in enumerate(_STEPS) if cell.ratio < limit)
    return {**shown, "text": value, "mark": mark, "title": title}


def _step_text(index: int) -> str:
    limit = _STEPS[index][0]
    if limit == math.inf:
        return f"over {_STEPS[index - 1][0]:g}"
    return f"{'to' if index else 'under'} {limit:g}"


def league_html(league: League) -> str:
    """Return one sentence on who wins and who loses in the league."""
    return template("league.html").render(
        sentence=overview.league_sentence(league), measured=overview.league_measured(league)
    )
