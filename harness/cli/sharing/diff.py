"""``prmcal diff``: two leaderboards, cell by cell, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.two_runs import RunComparison, compare_runs
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.board import Column, estimate
from prmcal.db.text.formats import counted, escape_markdown, markdown_grid, missing
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.cli.options import (
    FORMATS,
    FormatOption,
    PagerOption,
    WideOption,
    exported,
    hidden_note,
    one_of,
    plain_row,
)
from prmcal.harness.share.conditions import Difference, differences_between
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.harness.terminal import show as show_text

if TYPE_CHECKING:
    import pandas as pd


_MOST_ROWS, _MOST_NAMED = 20, 10
_HASH_START = 12


def diff(
    first: Annotated[
        Path,
        typer.Argument(metavar="A", help="The output folder of a run, or a merged leaderboard."),
    ],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="calibration, scaling or league.")
    ] = "calibration",
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
    names, shared = _names(list(shown["cell_id"]))
    columns = _columns(shown, names, found.described.name)
    head = [f"A  {first}", f"B  {other}", "", _summary(found, tables[table])]
    above = [f"In all rows: {', '.join(shared)}."] if shared else []
    if output_format == "markdown":
        grid = markdown_grid(
            [each.title for each in columns],
            [
                [escape_markdown(text) for text in row]
                for row in zip(*(c.values for c in columns), strict=True)
            ],
            left=1,
        )
        lists = [
            f"{title}\n\n" + "\n".join(f"- {line}" for line in lines) for title, lines in _lists(found, apart)
        ]
        told = map(escape_markdown, [*filter(None, head), *above])
        return "\n\n".join([*told, grid, *lists]) + "\n"
    parts = ["\n".join(wrapped(line, width) for line in head)]
    if len(shown):
        fitted = fit(columns, width)
        below = [_legend(found, len(shown))]
        if fitted.hidden:
            below.append(hidden_note(fitted.hidden, "--format csv"))
        parts += [wrapped(text, width) for text in above]
        parts += [fitted.text, "\n".join(wrapped(line, width) for line in below)]
    for title, lines in _lists(found, apart):
        parts.append("\n".join([title, *(wrapped(line, width, indent="  ") for line in lines)]))
    return "\n\n".join(parts) + "\n"


def _names(cells: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return short names of cells, without the parts of their ids that all have, and these parts."""
    parts = [cell.split("/")[1:] for cell in cells]
    same = [number for number, column in enumerate(zip(*parts, strict=False)) if len(set(column)) == 1]
    if len(parts) < 2 or len({len(each) for each in parts}) > 1:
        return ["/".join(each) for each in parts], []
    names = ["/".join(text for number, text in enumerate(each) if number not in same) for each in parts]
    return names, [parts[0][number] for number in same]


def _columns(rows: pd.DataFrame, names: Sequence[str], metric: str) -> list[Column]:
    given = rows.to_dict("records")
    return [
        Column("Cell", tuple(names), text=True),
        Column(
            "A",
            tuple(estimate(metric, row["value_a"], row["low_a"], row["high_a"]) for row in given),
            2,
            group="values",
            whole=True,
        ),
        Column(
            "B",
            tuple(estimate(metric, row["value_b"], row["low_b"], row["high_b"]) for row in given),
            2,
            group="values",
            whole=True,
        ),
        Column(
            "A - B",
            tuple(estimate(metric, row["difference"], row["low"], row["high"], signed=True) for row in given),
            whole=True,
        ),
        Column("p", tuple("" if missing(row["p"]) else f"{row['p']:.2g}" for row in given), 1),
        Column("different", tuple(_verdict(row["p"], row["overlap"]) for row in given)),
    ]


def _verdict(p: float, overlap: bool) -> str:
    different = not overlap if missing(p) else p < SIGNIFICANCE
    return "yes" if different else "no"


def _summary(found: RunComparison, table: Leaderboard) -> str:
    both = found.both
    paired = both[both["p"].notna()]
    equal = int((both["value_a"] == both["value_b"]).sum())
    real = int((paired["p"] < SIGNIFICANCE).sum())
    direction = f" ({found.described.direction})" if found.described.direction else ""
    parts = [
        f"{LEADERBOARDS[table].title}, {found.described.title}{direction}: "
        f"{counted(len(both), 'finished cell')} in both, of which {equal:,} have equal values."
    ]
    if len(paired):
        parts.append(
            f"{len(paired):,} were measured on the same questions: {real:,} of them differ significantly."
        )
    apart = int((~both[both["p"].isna()]["overlap"].astype(bool)).sum())
    if len(both) > len(paired):
        parts.append(
            f"Of the other {len(both) - len(paired):,}, {apart:,} have intervals that do not overlap."
        )
    parts.append(f"{len(found.only_a):,} cells are only in A, {len(found.only_b):,} only in B.")
    return " ".join(parts)


def _legend(found: RunComparison, shown: int) -> str:
    more = len(found.both) - shown
    rest = f" {more:,} cells with smaller or no differences are left out: --all shows them." if more else ""
    return (
        "Values with 95% intervals over questions, the largest differences first. Cells on the same questions are "
        f"paired, and different if p < {SIGNIFICANCE} after Holm's correction over all of them. Other cells are "
        f"different if their intervals do not overlap.{rest}"
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
    sides = [" and ".join(map(_short, values)) for values in (difference.first, difference.other)]
    return f"{sides[0]} in A, {sides[1]} in B"


def _short(text: str) -> str:
    """Shorten a long value, such as a hash."""
    return text if len(text) <= 2 * _HASH_START else f"{text[:_HASH_START]}..."


def _data(found: RunComparison, apart: Sequence[Difference]) -> dict[str, object]:
    return {
        "metric": found.described.name,
        "both": [plain_row(row) for row in found.both.to_dict("records")],
        "only_a": list(found.only_a["cell_id"]),
        "only_b": list(found.only_b["cell_id"]),
        "conditions": [asdict(each) for each in apart],
    }
