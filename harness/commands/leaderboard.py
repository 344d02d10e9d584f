"""``prmcal leaderboard``: the leaderboards and the table of costs, as text, JSON, CSV or Markdown."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.catalog import leaderboard
from prmcal.db.queries.costs import costs
from prmcal.db.text.presentation import LEADERBOARDS, MARKS, SECONDS_LEGEND, leaderboard_legend
from prmcal.db.text.readable import readable_costs, readable_leaderboard
from prmcal.harness.commands.output import FORMATS, exported, one_of, text_table
from prmcal.harness.storage.folder import RunFolder

__all__ = ["render_leaderboard"]

_TABLES = (*LEADERBOARDS, "costs")
_COSTS_LEGEND = (
    f"Costs per question / over all questions. {SECONDS_LEGEND} Costs that are not known are empty."
)


def render_leaderboard(directory: Path, table: str, output_format: str) -> str:
    """Return a leaderboard of a run's folder in one of the formats.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    table : {"calibration", "scaling", "costs"}
    output_format : {"table", "json", "csv", "markdown"}
        ``table`` shows the main metrics only.

    Raises
    ------
    PrmcalError
        If there is no such table or format, or no grid was run in the folder.
    DatabaseError
        If there is no readable database.
    """
    one_of("--table", table, _TABLES)
    one_of("--format", output_format, FORMATS)
    published = RunFolder(directory).results()
    if table == "costs":
        return _costs(published, output_format)
    name: Leaderboard = "scaling" if table == "scaling" else "calibration"
    frame = leaderboard(published, name)
    if output_format in ("csv", "json"):
        return exported(frame, output_format)
    if output_format == "markdown":
        return readable_leaderboard(frame, name).markdown()
    found = readable_leaderboard(frame, name, LEADERBOARDS[name].main_metrics)
    return "\n".join([text_table(found.head, found.rows), leaderboard_legend(MARKS), *found.notes]) + "\n"


def _costs(published: Path, output_format: str) -> str:
    """Return the costs of the cells of the scaling leaderboard."""
    frame = costs(published)
    if output_format in ("csv", "json"):
        return exported(frame, output_format)
    found = readable_costs(frame)
    if output_format == "markdown":
        return found.markdown()
    return f"{text_table(found.head, found.rows)}\n{_COSTS_LEGEND}\n"
