"""The README of a report: its provenance, and all tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from prmcal.db.text.formats import escape_markdown, markdown_grid
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.exhibits.types import Chart, Exhibit, Table, TextTable
from prmcal.harness.report.formats import markdown, markdown_notes

__all__ = ["index", "picture_names", "provenance"]


def picture_names(chart: Chart) -> list[str]:
    """Return the names of the files of a chart without suffix. Several pictures are numbered."""
    if len(chart.pictures) == 1:
        return [chart.name]
    return [f"{chart.name}-{number}" for number in range(1, len(chart.pictures) + 1)]


def provenance(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance of a report or site, from the row of the run in the table ``runs``."""
    return {
        "grid": run["grid_name"],
        "grid_key": run["grid_key"],
        "run": run["run_id"],
        "status": run["status"],
        "started": _moment(run["started_at"]),
        "finished": _moment(run["finished_at"]),
        "prmcal": run["prmcal_version"],
        "packages": run["packages"],
    }


def index(evidence: Evidence, exhibits: Sequence[Exhibit]) -> str:
    """Return the README."""
    about = provenance(evidence.run)
    parts = [
        f"# Calibration of the grid '{escape_markdown(about['grid'])}'",
        _about(evidence, about),
        _splits(evidence),
        *(_chart(each) if isinstance(each, Chart) else _table(each) for each in exhibits),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _about(evidence: Evidence, about: dict[str, Any]) -> str:
    finished = f", finished {about['finished']}" if about["finished"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    lines = [
        f"- Run `{about['run']}` ({about['status']}): started {about['started']}{finished}, UTC.",
        f"- Grid key `{about['grid_key']}`: equal grids have equal keys.",
        f"- {_count(evidence.llms, 'LLM')} x {_count(evidence.prms, 'PRM')} x "
        f"{_count(evidence.calibrators, 'calibrator')} x {_count(evidence.datasets, 'data set')}.",
        f"- prmcal {escape_markdown(about['prmcal'])}; {escape_markdown(packages)}.",
    ]
    if about["status"] != "done":
        lines.append(
            "- **The run is not complete.** A missing value is shown as a dash, with the reason below the table."
        )
    return "\n".join(lines)


def _splits(evidence: Evidence) -> str:
    columns = ["name", "split", "content_hash", "questions"]
    rows = [
        [escape_markdown(name), escape_markdown(split), f"`{content}`", f"{questions:,}"]
        for name, split, content, questions in evidence.splits[columns].itertuples(index=False)
    ]
    return markdown_grid(["Data set", "Split", "Content hash", "Questions"], rows, left=3)


def _table(table: Table | TextTable) -> str:
    files = f"Files: [CSV]({table.name}.csv), [LaTeX]({table.name}.tex), [Markdown]({table.name}.md)."
    return f"{markdown(table)}\n{files}"


def _chart(chart: Chart) -> str:
    names = picture_names(chart)
    pictures = [f"![{escape_markdown(chart.alternative)}]({name}.png)" for name in names]
    files = ", ".join(f"[{name}.pdf]({name}.pdf)" for name in names)
    parts = [f"## {escape_markdown(chart.title)}", *pictures, escape_markdown(chart.caption)]
    return "\n\n".join([*parts, *markdown_notes(chart.notes), f"For print: {files}."])


def _count(names: Sequence[str], kind: str) -> str:
    return f"{len(names)} {kind}{'' if len(names) == 1 else 's'}"


def _moment(moment: Any) -> str | None:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if isinstance(moment, datetime) and moment == moment else None
