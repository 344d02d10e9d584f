"""The pages with the parts that are written from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from docs.generators.api import api_details, api_table
from docs.generators.commands import commands_reference
from docs.generators.grid_file import grid_reference
from docs.generators.plugins import arguments_tables, metrics_table, models_table, plugin_details, plugin_table
from prmcal.harness.cli.app import EXPLANATION

PARTS: Mapping[str, Callable[[], str]] = {
    "api": api_table,
    "calibration metrics": partial(plugin_table, "metric"),
    "graders": partial(plugin_table, "grader"),
    "calibrators": partial(plugin_table, "calibrator"),
    "commands": commands_reference,
    "datasets": partial(plugin_table, "dataset"),
    "exit codes": lambda: EXPLANATION,
    "grid file": grid_reference,
    "llms": partial(plugin_table, "llm"),
    "metrics": metrics_table,
    "models": models_table,
    "plugins": arguments_tables,
    "prms": partial(plugin_table, "prm"),
    "strategies": partial(plugin_table, "strategy"),
}
"""What stands in pages, between the comments ``<!-- generated: NAME -->`` and ``<!-- end -->``."""
DETAILS: Mapping[str, Callable[[], str]] = {"api": api_details, "plugins": plugin_details}
"""What only the built documentation has, instead of a comment such as ``<!-- details: api -->``."""

_PART = re.compile(r"^<!-- generated: ([a-z ]+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_DETAILS = re.compile(r"^<!-- details: ([a-z ]+) -->$", re.MULTILINE)


def filled(text: str) -> str:
    """Return a page with its parts as the code is now. Raise KeyError for a part that does not exist."""
    return _PART.sub(lambda mark: f"<!-- generated: {mark[1]} -->\n\n{PARTS[mark[1]]().strip()}\n\n<!-- end -->", text)


def with_details(text: str) -> str:
    """Return a page for Sphinx, in which docstrings are read in full."""
    return _DETAILS.sub(lambda mark: DETAILS[mark[1]](), text)


def write(folder: Path) -> None:
    """Write the parts into the pages of a folder."""
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(filled(text), encoding="utf-8")
