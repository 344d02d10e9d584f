"""The comparison of two cells as boards: one of their metrics, and one of the questions on which they differ most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.board import Board, Column, column_of, estimate
from prmcal.db.text.formats import missing, number

_FROM_ZERO = "†"


def comparison_board(found: CellComparison, title: Callable[[str], str] = str) -> Board:
    """Return the values of both cells and their differences, a row for each metric, which `title` names."""
    rows = list(found.table.itertuples())
    differences = [
        estimate(row.metric, row.difference, row.low, row.high, signed=True) + _FROM_ZERO * row.from_zero
        for row in rows
    ]
    sides = [
        column_of(rows, "A", lambda row: estimate(row.metric, row.a, row.a_low, row.a_high), 3),
        column_of(rows, "B", lambda row: estimate(row.metric, row.b, row.b_low, row.b_high), 3),
    ]
    columns = (
        column_of(rows, "metric", lambda row: title(row.metric)),
        *(replace(each, group="cells", whole=True) for each in sides),
        Column("A - B", tuple(differences), whole=True),
        column_of(rows, "significant", lambda row: {None: "", True: "yes", False: "no"}[row.real], 1),
        column_of(found.p_values, "p", lambda p: "" if math.isnan(p) else f"{p:.2g}", 2),
    )
    return Board(columns, names=1, legend="\n".join(_legend(found)))


def _legend(found: CellComparison) -> list[str]:
    lines = ["Values with 95% intervals over questions. A - B is paired."]
    if found.table["from_zero"].any():
        lines.append(f"{_FROM_ZERO}: difference of the distances from 0, the best value.")
    pairs = sorted({each for each in found.table["pairs"] if each is not None})
    adjusted = (
        "These cells do not compete on a leaderboard, so p is not adjusted for the number of comparisons."
    )
    if pairs:
        adjusted = (
            "p is adjusted by Holm's correction over all pairs of cells of the group "
            f"({' or '.join(map(str, pairs))} {'pair' if pairs == [1] else 'pairs'}), except that of metrics that are "
            "not compared on a leaderboard."
        )
    return [*lines, f"significant: p < {SIGNIFICANCE}. {adjusted}"]


def questions_board(found: CellComparison) -> Board:
    """Return the questions on which two cells differ most."""
    rows = list(found.differing.itertuples())
    texts = column_of(rows, "text", lambda row: "" if missing(row.question) else row.question, 2)
    columns = (
        column_of(rows, "question", lambda row: row.question_id, 3),
        column_of(
            rows, "level", lambda row: "" if missing(row.question_level) else f"{row.question_level}", 4
        ),
        column_of(rows, "A", lambda row: number(row.value_a), 1),
        column_of(rows, "B", lambda row: number(row.value_b), 1),
        column_of(rows, "A - B", lambda row: number(row.difference, signed=True)),
        replace(texts, text=True),
    )
    by = "squared error, mean over prefixes" if found.prefixes else "accuracy"
    return Board(columns, names=1, title=f"Questions with the largest differences ({by})")
