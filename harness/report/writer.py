"""The report's folder: written beside its place, and put there when it is whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from harness.folder import RunFolder
from harness.report.contents import CONTENTS
from harness.report.evidence import Evidence, read_evidence
from harness.report.exhibits import Chart, Exhibit, Table
from harness.report.formats import csv_text, latex, markdown
from harness.report.index import index, picture_names, provenance
from harness.report.style import styled
from harness.store import storage_errors
from registry.errors import StorageError

__all__ = ["write_report"]

_MARK = "report.json"


def write_report(directory: Path, out: Path) -> list[Path]:
    """Write the report of a run, from its published database alone.

    Parameters
    ----------
    directory : Path
        Output folder of a run.
    out : Path
        The report's folder: new, empty, or an earlier report, which is replaced as a whole.

    Returns
    -------
    list of Path
        The files, in order of their names.

    Raises
    ------
    RunError, DatabaseError
        If no grid was run in the folder, or its database cannot be read.
    StorageError
        If `out` holds something else than a report, or cannot be written; nothing in it was changed.
    PrmcalError
        If matplotlib is missing.
    """
    target = out.resolve()
    _check_replaceable(target, out)
    run = RunFolder(directory)
    if not run.published.exists():
        run.record()  # says how to start a run, if that is what is missing
    with styled():
        evidence = read_evidence(run.published)
        made = [exhibit(evidence) for exhibit in CONTENTS]
        exhibits = [exhibit for exhibit in made if exhibit is not None]
        with storage_errors(out):
            names = _replace(target, evidence, exhibits)
    return [out / name for name in names]


def _check_replaceable(target: Path, out: Path) -> None:
    """Refuse a folder that holds anything but a report: replacing it would delete what is not ours."""
    with storage_errors(out):
        if not target.exists():
            return
        if not target.is_dir():
            raise StorageError(f"{out} is a file. Choose a folder for --out.")
        found = sorted(path.relative_to(target).as_posix() for path in target.rglob("*"))
    try:
        ours = json.loads((target / _MARK).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        ours = []
    foreign = [name for name in found if name not in ours]
    if foreign:
        raise StorageError(
            f"{out} holds files that are not of a report, such as {foreign[0]}. Nothing was changed. Choose an empty "
            "or a new --out folder."
        )


def _replace(target: Path, evidence: Evidence, exhibits: list[Exhibit]) -> list[str]:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        fresh.mkdir()
        _fill(fresh, evidence, exhibits)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
    return sorted(path.name for path in target.iterdir())


def _fill(folder: Path, evidence: Evidence, exhibits: list[Exhibit]) -> None:
    for exhibit in exhibits:
        if isinstance(exhibit, Table):
            _write(folder / f"{exhibit.name}.csv", csv_text(exhibit))
            _write(folder / f"{exhibit.name}.tex", latex(exhibit))
            _write(folder / f"{exhibit.name}.md", markdown(exhibit))
        else:
            _draw(folder, exhibit)
    _write(folder / "README.md", index(evidence, exhibits))
    files = sorted([*(path.name for path in folder.iterdir()), _MARK])
    _write(folder / _MARK, json.dumps({**provenance(evidence), "files": files}, indent=1) + "\n")


def _draw(folder: Path, chart: Chart) -> None:
    for name, picture in zip(picture_names(chart), chart.pictures, strict=True):
        picture.draw_without_rendering()  # which lays it out, once for both files
        picture.set_layout_engine("none")
        # Without the date and the version of matplotlib, equal pictures are equal files.
        picture.savefig(folder / f"{name}.png", metadata={"Software": None})
        picture.savefig(
            folder / f"{name}.pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None}
        )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
