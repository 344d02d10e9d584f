"""The extension of Sphinx that fills the pages with the parts that are written from the code."""

from __future__ import annotations

import pydoc
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from docs.generators.api import api_reference
from docs.generators.commands import commands_reference
from docs.generators.grid_file import grid_reference
from docs.generators.mathml import visit_block, visit_inline
from docs.generators.plugins import metrics_table, models_table, plugin_details, plugin_table
from prmcal.harness.cli.app import EXPLANATION

PARTS: dict[str, Callable[[], str]] = {
    "api": api_reference,
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
    "plugins": plugin_details,
    "prms": partial(plugin_table, "prm"),
    "strategies": partial(plugin_table, "strategy"),
}
"""What a page can ask for with a comment such as ``<!-- generated: commands -->``."""

_COMMENT = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)


def filled(text: str) -> str:
    """Return a page in which the comments are replaced by the generated parts."""

    def part(match: re.Match[str]) -> str:
        if match[1] not in PARTS:
            raise ExtensionError(f"There is no generated part '{match[1]}'. Known: {', '.join(PARTS)}.")
        return PARTS[match[1]]()

    return _COMMENT.sub(part, text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _fill)
    app.connect("missing-reference", _exists)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def _exists(_app: Sphinx, _environment: object, node: Any, shown: Any) -> Any:
    """Return the text of a reference to something that exists and has no page; None if it does not exist."""
    target = str(node.get("reftarget", ""))
    return shown if target.startswith("prmcal.") and pydoc.locate(target) is not None else None
