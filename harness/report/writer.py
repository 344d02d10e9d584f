"""The folder of a report. The folder is replaced in one step when all files are written."""

import importlib.util
from pathlib import Path

from prmcal.errors import PrmcalError
from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written import ReportFolder

_PROVENANCE = ("grid_name", "grid_key", "run_id", "status", "prmcal_version", "packages")


def write_report(directory: Path, out: Path) -> list[Path]:
    """Write the report of a run's output folder, and return its files, sorted by name. An earlier report is replaced.

    A table is written as CSV and LaTeX, and a figure as CSV, SVG, PDF and PNG. ``report.json`` has the captions.

    Raise RunError or DatabaseError if there are no readable results, StorageError if `out` has other files than a
    report (nothing in it is changed then) or cannot be written, and PrmcalError if Altair or vl-convert is missing.
    """
    folder = ReportFolder(out)
    published = RunFolder(directory).results()
    if not can_draw():
        raise PrmcalError(
            "Figures need Altair and vl-convert. Install them in a clone of prmcal: pip install '.[report]'"
        )
    from prmcal.db.charts import Figure, files_of
    from prmcal.harness.report.figures import figures
    from prmcal.harness.report.tables import Table, tables

    evidence = read_evidence(published)
    exhibits: list[Table | Figure] = [*tables(evidence), *figures(evidence)]

    def fill(fresh: Path) -> None:
        for exhibit in exhibits:
            exhibit.rows.to_csv(fresh / f"{exhibit.name}.csv", index=False, float_format="%.10g")
            if isinstance(exhibit, Table):
                (fresh / f"{exhibit.name}.tex").write_text(exhibit.latex, encoding="utf-8")
            else:
                for suffix, content in files_of(exhibit.picture).items():
                    (fresh / f"{exhibit.name}.{suffix}").write_bytes(content)

    about = {name: evidence.run[name] for name in _PROVENANCE}
    about["started_at"] = f"{evidence.run['started_at']} UTC"
    words = {exhibit.name: {"title": exhibit.title, "caption": exhibit.caption} for exhibit in exhibits}
    return folder.replace(fill, {**about, "exhibits": words})


def can_draw() -> bool:
    """Return whether the packages that draw figures are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert"))
