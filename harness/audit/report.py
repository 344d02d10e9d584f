"""The report of an audit: a page in one file, and its diagrams as SVG."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal import __version__
from prmcal.db.html.boards import template
from prmcal.db.text.formats import interval, number
from prmcal.db.text.overview import quantity
from prmcal.harness.audit import verdict
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.writer import can_draw

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.harness.audit.choices import Choices
    from prmcal.harness.audit.estimates import Measured
    from prmcal.harness.audit.scored import Scored

_HERE = Path(__file__).parent


def fragment(source: str, scored: Scored, measured: Measured, choices: Choices | None) -> str:
    """Return the report as HTML for a notebook: without a style of its own, and with the diagrams in it."""
    return template("findings.html", _HERE).render(**_contents(source, scored, measured, choices, None))


def write_report(
    directory: Path, source: str, scored: Scored, measured: Measured, choices: Choices | None
) -> None:
    """Write ``report.html`` and a file for each diagram into a folder. Without the packages there are no diagrams."""
    from prmcal.harness.site.writer import page
    from prmcal.harness.storage.written import write_text

    contents = _contents(source, scored, measured, choices, str(directory))
    styles = [(_HERE / "report.css").read_text(encoding="utf-8")]
    drawn = [figure["drawn"] for figure in contents["figures"].values() if figure["drawn"]]
    if drawn:
        from prmcal.db.charts import style_sheet
        from prmcal.harness.report.pictures import with_dark_style

        styles.append(style_sheet())
        for chart, svg in drawn:
            write_text(directory / f"{chart.name}.svg", with_dark_style(svg))
    write_text(directory / "report.html", page("report.html", *styles, folder=_HERE, **contents))


def _drawn(shown: Mapping[str, pd.DataFrame]) -> dict[str, tuple[Chart, Any]]:
    """Return the diagrams and their SVG by the names of their tables."""
    if not can_draw():
        return {}
    from markupsafe import Markup

    from prmcal.harness.audit.pictures import diagrams
    from prmcal.harness.report.pictures import svg_of

    return {name: (chart, Markup(svg_of(chart.picture))) for name, chart in diagrams(shown).items()}


def _contents(
    source: str, scored: Scored, measured: Measured, choices: Choices | None, directory: str | None
) -> dict[str, Any]:
    shown = verdict.tables(measured, choices)
    drawn = _drawn(shown)
    return {
        "source": source,
        "verdict": [
            verdict.trust(measured),
            verdict.repair(measured),
            *([verdict.better_rules(choices), verdict.promised(choices)] if choices else []),
        ],
        "reading": scored.reading,
        "health": list(verdict.health(scored, measured)),
        "errors": " ".join(
            [
                f"Calibration error {quantity(measured.error)}. Brier score {quantity(measured.brier)}.",
                *verdict.errors_found(measured),
            ]
        ),
        "figures": {
            name: {"drawn": drawn.get(name), "rows": _texts(table)}
            for name, table in shown.items()
            if len(table)
        },
        "compared": verdict.compared(choices) if choices else "",
        "limits": list(verdict.limits(scored, choices)),
        "directory": directory,
        "quoted": shlex.quote(directory or ""),
        "version": __version__,
    }


def _texts(table: pd.DataFrame) -> list[list[str]]:
    """Return the heads and the rows of a table as texts, with an interval behind its value."""
    heads = [name for name in table if not name.endswith(("_low", "_high"))]
    return [heads, *([_text(row, name) for name in heads] for row in table.to_dict("records"))]


def _text(row: dict[Any, Any], name: str) -> str:
    found = row[name]
    if not isinstance(found, float):
        return f"{found:,}" if isinstance(found, int) else str(found)
    low, high = row.get(f"{name}_low", math.nan), row.get(f"{name}_high", math.nan)
    return "" if math.isnan(found) else f"{number(found)} {interval(low, high)}".strip()
