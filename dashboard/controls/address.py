"""The state of a page stands in its address: who is sent the address sees the same view.

A widget is bound by ``st.selectbox("Cell", cells, **bound("cell"))``: it starts with what the query parameter ``cell``
says and writes there what is chosen; a default is left out. Values that a widget does not offer are ignored, so that
an address of another run opens the page as if nothing had been chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["bound", "link"]


def bound(parameter: str) -> dict[str, Any]:
    """Bind a widget to a query parameter: keyword arguments for any widget of Streamlit."""
    return {"key": parameter, "bind": "query-params"}


def link(page: str, **state: str | Sequence[str] | None) -> str:
    """Return the address of a page in a state.

    Parameters
    ----------
    page : str
        The page's path, such as ``calibration``.
    **state
        Query parameters and their values; several for a widget that takes several, None for those to leave out.
    """
    given = {name: value for name, value in state.items() if value is not None}
    query = urlencode(given, doseq=True, quote_via=quote, safe="")
    return f"/{page}?{query}" if query else f"/{page}"
