"""The leaderboards of a page as tables of DataTables, which the package ``itables`` brings.

All texts are escaped here, because DataTables takes them as HTML.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from prmcal.db.text.board import Board, Column

_ROWS = 50
_HERE = Path(__file__).parent
_EXPORTS = re.compile(r"export\s*\{([^{}]*\bas ITable\b[^{}]*)\};?")
_SIGN = re.compile(r"(?<![\w-])-(?=\d)")


def board_json(board: Board, link: Callable[[str], str]) -> str:
    """Return a board as JSON for the script. It is also safe inside a ``<script>`` element.

    `link` gives the address of a cell by its identifier, to which the first column is a link. An empty address makes no
    link.
    """
    columns = [_data(column) for column in board.columns]
    if board.cells:
        targets = [link(cell) for cell in board.cells]
        first = [text if isinstance(text, str) else text["text"] for text in columns[0]]
        columns[0] = [
            f'<a href="{escape(target)}">{text}</a>' if target else text
            for target, text in zip(targets, first, strict=True)
        ]
    options = {
        "columns": [_options(place, column) for place, column in enumerate(board.columns)],
        "data_json": json.dumps(list(zip(*columns, strict=True)), ensure_ascii=False, separators=(",", ":")),
        "deferRender": True,
        "lengthMenu": [_ROWS, 200, 1000],
        "order": [],
        "pageLength": _ROWS,
        "layout": {"topStart": {"buttons": [{"extend": "colvis", "text": "Columns"}]}, "topEnd": "search"},
    }
    data = {"title": board.title, "legend": board.legend, "cells": board.cells, "options": options}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def boards_script() -> str:
    """Return the module that shows the boards of a page: DataTables, and what calls it."""
    bundle = resources.files("itables").joinpath("html/dt_bundle.js").read_text(encoding="utf-8").rstrip()
    found = _EXPORTS.search(bundle)
    assert found is not None  # what the bundle gives to other modules
    (table,) = re.findall(r"([\w$]+) as ITable\b", found[1])
    own = f"const ITable = {table};\n" + (_HERE / "boards.js").read_text(encoding="utf-8")
    text = bundle[: found.start()] + bundle[found.end() :] + "\n" + own
    return text.replace("</script", "<\\/script").rstrip()


@cache
def boards_style() -> str:
    """Return the style of the tables. The page defines the colours ink, paper, soft, line, band and link."""
    bundle = resources.files("itables").joinpath("html/dt_bundle.css").read_text(encoding="utf-8")
    return bundle.rstrip() + "\n" + (_HERE / "boards.css").read_text(encoding="utf-8").rstrip()


def _data(column: Column) -> list[Any]:
    """Return the texts of a column as HTML, with their places in the order if they are numbers."""
    texts = [escape(_SIGN.sub("\N{MINUS SIGN}", value)) for value in column.values]
    if not column.numbers:
        return list(texts)
    return [  # What has no number comes after the largest one.
        {"text": text, "number": sys.float_info.max if math.isnan(number) else number}
        for text, number in zip(texts, column.numbers, strict=True)
    ]


def _options(place: int, column: Column) -> dict[str, Any]:
    about = f'<span class="about" title="{escape(column.about)}">{escape(column.title)}</span>'
    title = about if column.about else escape(column.title)
    own: dict[str, Any] = {"title": title, "visible": not column.hidden, "data": place}
    if column.numbers:
        own["data"] = {"_": f"{place}.text", "sort": f"{place}.number", "type": f"{place}.number"}
        own["type"] = "num"
    return own
