"""``prmcal diff``: two leaderboards, cell by cell, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, get_args

import typer

from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.two_runs import RunComparison, compare_runs
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.board import difference_board
from prmcal.db.text.formats import counted, escape_markdown
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.cli.options import (
    FORMATS,
    FormatOption,
    PagerOption,
    WideOption,
    argument,
    exported,
    fitted,
    one_of,
    option,
    plain_row,
)
from prmcal.harness.share.conditions import Difference, differences_between
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, cut, wrapped
from prmcal.harness.terminal import show as show_text

_MOST_ROWS, _MOST_NAMED = 20, 10


def diff(
    first: Annotated[Path, argument("A", "The output folder of a run, or a merged leaderboard.")],
    other: Annotated[Path, argument("B", "Another one.")],
    table: Annotated[str, option("TABLE", "calibration, scaling or league.")] = "calibration",
    output_format: FormatOption = "table",
    every: Annotated[bool, typer.Option("--all", help="Show all cells that both have.")] = False,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Compare two leaderboards.

    It shows the cells with the largest differences, with paired tests, the cells that only one of them has, and the
    versions and conditions that differ.
    """
    text = _rendered(first, other, table, output_format, UNLIMITED if wide else None, every)
    show_text(text, pager and output_format == "table")


def _rendered(
    first: Path, other: Path, table: str, output_format: str, width: int | None, every: bool
) -> str:
    """Compare two leaderboards, and return the result in one of the formats. CSV has only the cells of both."""
    tables: dict[str, Leaderboard] = {name: name for name in get_args(Leaderboard)}
    one_of("--table", table, list(tables))
    one_of("--format", output_format, FORMATS)
    found = compare_runs(RunFolder(first).results(), RunFolder(other).results(), tables[table])
    if output_format == "csv":
        return exported(found.both, "csv")
    apart = differences_between(first, other)
    if output_format == "json":
        return json.dumps(_data(found, apart), indent=1) + "\n"
    size = found.both["difference"].abs().sort_values(ascending=False, kind="stable").index
    rows = found.both.loc[size]
    shown = rows if every else rows[rows["difference"] != 0].head(_MOST_ROWS)
    board = difference_board(replace(found, both=shown), tables[table], "A", "B")
    head = [f"A  {first}", f"B  {other}", _summary(found, tables[table])]
    below = [board.legend] if len(shown) else []
    if less := len(rows) - len(shown):
        below.append(f"{less:,} cells with smaller or no differences are left out: --all shows them.")
    lists = list(_lists(found, apart))
    if output_format == "markdown":
        items = [f"{title}\n\n" + "\n".join(f"- {line}" for line in lines) for title, lines in lists]
        table_text = [board.markdown()] if len(shown) else []
        return "\n\n".join([*map(escape_markdown, head), *table_text, *below, *items]) + "\n"
    parts = ["\n".join(wrapped(line, width) for line in head)]
    if len(shown):
        same = [each for each in board.columns[: board.names] if len(set(each.values)) == 1 < len(shown)]
        if same:
            below.insert(0, f"In all rows: {', '.join(f'{each.title} {each.values[0]}' for each in same)}.")
        columns = [each for each in board.columns if each not in same]
        parts.append(fitted(columns, width, legend=below, options=["--format csv"]))
    else:
        parts += [wrapped(line, width) for line in below]
    for title, lines in lists:
        parts.append("\n".join([title, *(wrapped(line, width, indent="  ") for line in lines)]))
    return "\n\n".join(parts) + "\n"


def _summary(found: RunComparison, table: Leaderboard) -> str:
    both, metric = found.both, found.described
    paired = both["p"].notna()
    equal, real = (both["value_a"] == both["value_b"]).sum(), (both["p"] < SIGNIFICANCE).sum()
    apart = (~paired & ~both["overlap"].astype(bool)).sum()
    return (
        f"{LEADERBOARDS[table].title}, {metric.title}: {counted(len(both), 'finished cell')} in both, of which "
        f"{equal:,} have equal values. {paired.sum():,} were measured on the same questions: {real:,} of them differ "
        f"significantly. Of the others, {apart:,} have intervals that do not overlap. {len(found.only_a):,} cells are "
        f"only in A, {len(found.only_b):,} only in B."
    )


def _lists(found: RunComparison, apart: Sequence[Difference]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lists below the table: their titles and lines."""
    for side, cells in (("A", found.only_a), ("B", found.only_b)):
        names = list(cells["cell_id"])
        if names:
            more = [f"and {len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
            yield f"Only in {side}:", [*names[:_MOST_NAMED], *more]
    if apart:
        yield "Versions and conditions that differ:", [f"{each.what}: {_sides(each)}" for each in apart]


def _sides(difference: Difference) -> str:
    """Return both sides, with long values such as hashes cut."""
    sides = [" and ".join(cut(each, 24) for each in side) for side in (difference.first, difference.other)]
    return f"{sides[0]} in A, {sides[1]} in B"


def _data(found: RunComparison, apart: Sequence[Difference]) -> dict[str, object]:
    return {
        "metric": found.described.name,
        "both": [plain_row(row) for row in found.both.to_dict("records")],
        "only_a": list(found.only_a["cell_id"]),
        "only_b": list(found.only_b["cell_id"]),
        "conditions": [asdict(each) for each in apart],
    }
