"""The figures of the report for a page that is light or dark.

A figure is an SVG file with its own style: the browser applies the reader's colour scheme to it, also inside ``<img>``.
"""

from __future__ import annotations

import importlib.util
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.harness.report.contents import CONTENTS
from prmcal.harness.report.evidence.read import read_evidence
from prmcal.harness.report.exhibits.style import styled
from prmcal.harness.report.exhibits.types import Chart
from prmcal.harness.report.index import picture_names
from prmcal.harness.storage.written_folder import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["Figure", "draw_figures", "without_tables"]

# Colours of figures that are hard to see on a dark page, and what replaces them there.
_ON_DARK = {"#000000": "#e8eaf0", "#31333f": "#e8eaf0", "#5f6b7a": "#9aa5b5"}

# How captions of the report name its tables, which the site does not have.
_TABLE_OF_REPORT = re.compile(r"\bTables? \d|\btable (?:above|below)\b")


@dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes
    ----------
    title, caption, alternative : str
        The name, the explanation, and the text for readers who do not see it.
    files : tuple of str
        Names of the pictures.
    notes : dict
        Reasons for missing values, with their numbers in the figure.
    """

    title: str
    caption: str
    alternative: str
    files: tuple[str, ...]
    notes: dict[str, int]


def draw_figures(published: Path, folder: Path, prefix: str) -> list[Figure]:
    """Write the figures of the report to a folder. Without matplotlib there are none.

    Parameters
    ----------
    published : Path
        The published copy of the database.
    folder : Path
        Where the files are written.
    prefix : str
        The beginning of their names.
    """
    if not _has_matplotlib():
        return []
    figures = []
    with styled():
        evidence = read_evidence(published)
        for make in CONTENTS:
            chart = make(evidence)
            if isinstance(chart, Chart):
                files = tuple(f"{prefix}{name}.svg" for name in picture_names(chart))
                for file, picture in zip(files, chart.pictures, strict=True):
                    write_text(folder / file, _svg(picture))
                caption = without_tables(chart.caption)
                figures.append(Figure(chart.title, caption, chart.alternative, files, chart.notes))
    return figures


def without_tables(caption: str) -> str:
    """Return a caption of the report without the clauses that refer to its tables, which the site does not have.

    Parameters
    ----------
    caption : str
        Sentences, whose clauses may be separated by semicolons.
    """
    sentences = [
        [clause for clause in sentence.split("; ") if not _TABLE_OF_REPORT.search(clause)]
        for sentence in re.split(r"(?<=\.) ", caption)
    ]
    return " ".join("; ".join(clauses).removesuffix(".") + "." for clauses in sentences if clauses)


def _has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def _svg(picture: Picture) -> str:
    import matplotlib

    written = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "prmcal"}):  # the same names of elements in each file
        picture.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = re.sub("|".join(_ON_DARK), lambda found: f"var(--c{found[0][1:]}, {found[0]})", written.getvalue())
    dark = " ".join(f"--c{colour[1:]}: {other};" for colour, other in _ON_DARK.items())
    style = f"<style>@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    return re.sub(r"(<svg[^>]*>)", rf"\1{style}", text, count=1)
