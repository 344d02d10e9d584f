"""The address of a page holds its state, so that everyone who opens the address sees the same view.

``st.selectbox("Cell", cells, **bound("cell"))`` binds a widget to the query parameter ``cell``. The widget starts with
the value of the parameter and writes each choice back. Default values are left out of the address. A value that the
widget does not offer is ignored, so an address from another run opens the page with its defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["bound", "link"]


def bound(parameter: str) -> dict[str, Any]:
    """Return the keyword arguments that bind a Streamlit widget to a query parameter."""
    return {"key": parameter, "bind": "query-params"}


def link(page: str, **state: str | Sequence[str] | None) -> str:
    """Return the address of a page in a given state.

    Parameters
    ----------
    page : str
        The path of the page, such as ``calibration``.
    **state
        Query parameters and their values: several for a widget with several values, None to leave a parameter out.
    """
    given = {name: value for name, value in state.items() if value is not None}
    query = urlencode(given, doseq=True, quote_via=quote, safe="")
    return f"/{page}?{query}" if query else f"/{page}"
