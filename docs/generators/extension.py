"""The extension of Sphinx that shows docstrings in full, and checks what references lead to."""

from __future__ import annotations

import pydoc
from typing import Any

from sphinx.application import Sphinx

from docs.generators.mathml import visit_block, visit_inline
from docs.generators.pages import with_details


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _fill)
    app.connect("missing-reference", _exists)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = with_details(source[0])


def _exists(_app: Sphinx, _environment: object, node: Any, content: Any) -> Any:
    """Return the text of a reference to something that exists and has no page; None if it does not exist."""
    target = str(node.get("reftarget", ""))
    return content if target.startswith("prmcal.") and pydoc.locate(target) is not None else None
