"""The folder of a report, with its README. It is replaced in one step when all files are written."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prmcal.db.text.formats import counted, escape_markdown, markdown_grid, missing
from prmcal.errors import PrmcalError
from prmcal.harness.report import exhibits
from prmcal.harness.report.evidence import Evidence, read_evidence
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written import WrittenFolder, write_text


def write_report(directory: Path, out: Path) -> list[Path]:
    """Write the report of a run's output folder, and return its files, sorted by name. An earlier report is replaced.

    Raise RunError or DatabaseError if there are no readable results, StorageError if `out` has other files than a
    report (nothing in it is changed then) or cannot be written, and PrmcalError if Altair or vl-convert is missing.
    """
    folder = WrittenFolder(out, "report.json", "report", "--out")
    published = RunFolder(directory).results()
    if not can_draw():
        raise PrmcalError(
            "Figures need Altair and vl-convert. Install them in a clone of prmcal: pip install '.[report]'"
        )
    evidence = read_evidence(published)
    made = exhibits_of(evidence)
    return folder.replace(lambda fresh: _fill(fresh, evidence, made), provenance(evidence.run))


def can_draw() -> bool:
    """Return whether the packages that draw figures are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert"))


def exhibits_of(evidence: Evidence) -> list[exhibits.Exhibit]:
    """Make all tables and figures, in their order. A new one needs a function and an entry here.

    A function returns None if the grid has no results for its exhibit.
    """
    from prmcal.harness.report import figures, tables

    made = (
        tables.ranking(evidence),
        tables.beside_the_paper(evidence),
        figures.figure_2(evidence),
        tables.table_1(evidence),
        figures.figure_3(evidence),
        figures.figure_3_main_metric(evidence),
        figures.figures_7_and_8(evidence),
        tables.table_5(evidence),
        *(tables.of_search(evidence, each) for each in ("bon", "bs")),
        figures.figure_4(evidence),
        tables.figure_4_in_numbers(evidence),
        tables.other_metrics(evidence),
    )
    return [exhibit for exhibit in made if exhibit is not None]


def _fill(folder: Path, evidence: Evidence, made: Sequence[exhibits.Exhibit]) -> None:
    from prmcal.db.charts import files_of

    for exhibit in made:
        if isinstance(exhibit, exhibits.Chart):
            for suffix, content in files_of(exhibit.picture).items():
                (folder / f"{exhibit.name}.{suffix}").write_bytes(content)
        else:
            write_text(folder / f"{exhibit.name}.csv", exhibits.csv_text(exhibit))
            write_text(folder / f"{exhibit.name}.tex", exhibits.latex(exhibit))
            write_text(folder / f"{exhibit.name}.md", exhibits.markdown(exhibit))
    write_text(folder / "README.md", index(evidence, made))


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


def index(evidence: Evidence, made: Sequence[exhibits.Exhibit]) -> str:
    """Return the README: the provenance of the report, and all tables and figures."""
    about = provenance(evidence.run)
    parts = [
        f"# Calibration of the grid '{escape_markdown(about['grid'])}'",
        _about(evidence, about),
        _splits(evidence),
        *(_chart(each) if isinstance(each, exhibits.Chart) else _table(each) for each in made),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _about(evidence: Evidence, about: dict[str, Any]) -> str:
    finished = f", finished {about['finished']}" if about["finished"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    names = (evidence.llms, evidence.prms, evidence.calibrators, evidence.datasets)
    kinds = zip(("LLM", "PRM", "calibrator", "data set"), map(len, names), strict=True)
    lines = [
        f"- Run `{about['run']}` ({about['status']}): started {about['started']}{finished}, UTC.",
        f"- Grid key `{about['grid_key']}`: equal grids have equal keys.",
        f"- {' x '.join(counted(count, kind) for kind, count in kinds)}.",
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


def _table(table: exhibits.Table | exhibits.TextTable) -> str:
    files = f"Files: [CSV]({table.name}.csv), [LaTeX]({table.name}.tex), [Markdown]({table.name}.md)."
    return f"{exhibits.markdown(table)}\n{files}"


def _chart(chart: exhibits.Chart) -> str:
    parts = [
        f"## {escape_markdown(chart.title)}",
        f"![{escape_markdown(chart.alternative)}]({chart.name}.png)",
        escape_markdown(chart.caption),
        *exhibits.markdown_notes(chart.notes),
        f"For print: [{chart.name}.pdf]({chart.name}.pdf), [{chart.name}.svg]({chart.name}.svg).",
    ]
    return "\n\n".join(parts)


def _moment(moment: Any) -> str | None:
    return None if missing(moment) else f"{moment:%Y-%m-%d %H:%M:%S}"
