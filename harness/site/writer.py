"""The folder of the site: one page, the leaderboards as CSV, and the figures of the report."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.catalog import leaderboard, runs
from prmcal.db.reader import reading
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS
from prmcal.errors import PrmcalError
from prmcal.harness.report.contents import CONTENTS
from prmcal.harness.report.evidence.read import read_evidence
from prmcal.harness.report.exhibits.style import styled
from prmcal.harness.report.exhibits.types import Chart
from prmcal.harness.report.index import picture_names, provenance
from prmcal.harness.site.contents import board, paper_tables
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written_folder import WrittenFolder, write_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_site"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class _Figure:
    title: str
    caption: str
    alternative: str
    files: tuple[str, ...]
    notes: dict[str, int]


def write_site(directory: Path, out: Path) -> list[Path]:
    """Write the leaderboards of a run as a static site.

    If matplotlib is installed, the site has the figures of the report.

    Parameters
    ----------
    directory : Path
        Output folder of a run.
    out : Path
        Folder of the site: new, empty, or with an earlier site, which is replaced.

    Returns
    -------
    list of Path
        The files, sorted by name.

    Raises
    ------
    RunError, DatabaseError
        If no grid was run in the folder, or its database cannot be read.
    StorageError
        If `out` has other files than a site, or cannot be written. Nothing in it is changed.
    PrmcalError
        If the database has no run.
    """
    folder = WrittenFolder(out, "site.json", "site", "--html")
    published = RunFolder(directory).results()
    with reading(published) as source:
        frames = {name: leaderboard(source, name) for name in LEADERBOARDS}
        ran = runs(source)
    if ran.empty:
        raise PrmcalError(f"{directory} has no run to export. Run a grid with this output folder first.")
    about = provenance(ran.to_dict("records")[-1])

    def fill(fresh: Path) -> None:
        figures = _draw(published, fresh) if _has_matplotlib() and len(frames["calibration"]) else []
        write_text(fresh / "index.html", _page(about, frames, figures))
        for name, frame in frames.items():
            write_text(fresh / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n"))

    return folder.replace(fill, about)


def _page(
    about: dict[str, Any],
    frames: dict[Leaderboard, pd.DataFrame],
    figures: Sequence[_Figure],
) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        (_HERE / name).read_text(encoding="utf-8").rstrip("\n") for name in ("style.css", "script.js")
    )
    # The hashes let a browser run only the script of the page, even if a name or a reason contains another one.
    return environment.get_template("page.html").render(
        about=about,
        boards=[board(frame, name) for name, frame in frames.items() if len(frame)],
        figures=figures,
        names=COORDINATE_TITLES,
        papers=paper_tables(),
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def _draw(published: Path, folder: Path) -> list[_Figure]:
    figures = []
    with styled():
        evidence = read_evidence(published)
        for make in CONTENTS:
            chart = make(evidence)
            if isinstance(chart, Chart):
                files = tuple(f"{name}.png" for name in picture_names(chart))
                for file, picture in zip(files, chart.pictures, strict=True):
                    picture.savefig(folder / file, metadata={"Software": None})
                figures.append(_Figure(chart.title, chart.caption, chart.alternative, files, chart.notes))
    return figures
