"""The folder of a report. It is replaced in one step when all files are written."""

from __future__ import annotations

from pathlib import Path

from prmcal.harness.report.contents import CONTENTS
from prmcal.harness.report.evidence.read import Evidence, read_evidence
from prmcal.harness.report.exhibits.style import styled
from prmcal.harness.report.exhibits.types import Chart, Exhibit
from prmcal.harness.report.formats import csv_text, markdown
from prmcal.harness.report.index import index, picture_names, provenance
from prmcal.harness.report.latex import latex
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written_folder import WrittenFolder, write_text

__all__ = ["write_report"]


def write_report(directory: Path, out: Path) -> list[Path]:
    """Write the report of a run from its published database.

    Parameters
    ----------
    directory : Path
        Output folder of a run.
    out : Path
        Folder of the report: new, empty, or with an earlier report, which is replaced.

    Returns
    -------
    list of Path
        The files, sorted by name.

    Raises
    ------
    RunError, DatabaseError
        If no grid was run in the folder, or its database cannot be read.
    StorageError
        If `out` has other files than a report, or cannot be written. Nothing in it is changed.
    PrmcalError
        If matplotlib is missing.
    """
    folder = WrittenFolder(out, "report.json", "report", "--out")
    published = RunFolder(directory).results()
    with styled():
        evidence = read_evidence(published)
        made = [exhibit(evidence) for exhibit in CONTENTS]
        exhibits = [exhibit for exhibit in made if exhibit is not None]
        return folder.replace(lambda fresh: _fill(fresh, evidence, exhibits), provenance(evidence.run))


def _fill(folder: Path, evidence: Evidence, exhibits: list[Exhibit]) -> None:
    for exhibit in exhibits:
        if isinstance(exhibit, Chart):
            _draw(folder, exhibit)
        else:
            write_text(folder / f"{exhibit.name}.csv", csv_text(exhibit))
            write_text(folder / f"{exhibit.name}.tex", latex(exhibit))
            write_text(folder / f"{exhibit.name}.md", markdown(exhibit))
    write_text(folder / "README.md", index(evidence, exhibits))


def _draw(folder: Path, chart: Chart) -> None:
    for name, picture in zip(picture_names(chart), chart.pictures, strict=True):
        picture.draw_without_rendering()  # compute the layout once for both files
        picture.set_layout_engine("none")
        # Leave out the date and the version of matplotlib, so that equal pictures give equal files.
        picture.savefig(folder / f"{name}.png", metadata={"Software": None})
        picture.savefig(
            folder / f"{name}.pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None}
        )
