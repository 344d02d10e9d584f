"""What ``prmcal leaderboard --table costs`` prints: calls, tokens and time of every strategy."""

from __future__ import annotations

import json
from pathlib import Path

from harness.render import markdown_table, missing, plain_row, text_table

__all__ = ["render_costs"]

_SHOWN = ("samples", "generated_tokens", "prefill_tokens", "prm_tokens", "seconds")
_LEGEND = (
    "per question / over all questions; seconds of one worker, as the jobs that generated and scored went; "
    "empty where it is not known"
)


def render_costs(published: Path, output_format: str) -> str:
    """The costs of the cells of the scaling leaderboard in one of the formats."""
    from db.costs import costs

    frame = costs(published)
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    if output_format == "json":
        return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"
    titles = {"target": "C", "level": "beta"}
    names = [
        name
        for name in ("dataset", "llm", "prm", "calibrator", "strategy", "target", "level")
        if frame[name].notna().any()
    ]
    rows = [
        [
            *("" if missing(row[name]) else str(row[name]) for name in names),
            "" if missing(row["accuracy"]) else f"{row['accuracy']:.3f}",
            *(
                "" if missing(row[name]) else f"{row[name]:,.4g} / {row[f'{name}_total']:,.0f}"
                for name in _SHOWN
            ),
        ]
        for row in frame.to_dict("records")
    ]
    head = [*(titles.get(name, name) for name in names), "accuracy", *_SHOWN]
    if output_format == "markdown":
        return markdown_table(head, rows)
    return f"{text_table(head, rows)}\n{_LEGEND}\n"
