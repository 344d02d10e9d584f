"""What ``prmcal leaderboard --table costs`` prints: calls, tokens and time of every strategy."""

from __future__ import annotations

import json
from pathlib import Path

from prmcal.db.text.readable import readable_costs
from prmcal.harness.commands.render import plain_row, text_table

__all__ = ["render_costs"]

_LEGEND = (
    "per question / over all questions; seconds of one worker, as the jobs that generated and scored went; "
    "empty where it is not known"
)


def render_costs(published: Path, output_format: str) -> str:
    """The costs of the cells of the scaling leaderboard in one of the formats."""
    from prmcal.db.queries.costs import costs

    frame = costs(published)
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    if output_format == "json":
        return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"
    found = readable_costs(frame)
    if output_format == "markdown":
        return found.markdown()
    return f"{text_table(found.head, found.rows)}\n{_LEGEND}\n"
