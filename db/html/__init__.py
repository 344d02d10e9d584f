"""What the dashboard and the static site show in the same way: HTML, its styles and its scripts.

    overview              the overview as HTML
    table                 a leaderboard as data for the browser
    table.js, table.css   the script and the style that show these data as a table

The page that shows a table gives it a host, which keeps its state in the address and makes its links. Words belong in
`prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["asset"]


def asset(name: str) -> str:
    """Return the text of a script or a style of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8").rstrip("\n")
