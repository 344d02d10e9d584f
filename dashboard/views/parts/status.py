"""The status of a cell that has failed or is pending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from prmcal.dashboard.formats import escaped

__all__ = ["show_status"]


def show_status(cell: Mapping[str, Any]) -> None:
    """Show why a cell has failed, or that it is pending. Show nothing for a cell that is done."""
    if cell["status"] == "failed":
        st.error(f"This cell failed: {escaped(cell['reason'] or 'no reason was recorded')}")
    elif cell["status"] == "pending":
        st.info("This cell is pending. Its metrics have not been computed yet.")
