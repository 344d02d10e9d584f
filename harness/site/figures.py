"""The figures of the report for a page that is light or dark.

A figure is an SVG file with its own style: the browser applies the reader's colour scheme to it, also inside ``<img>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.writer import can_draw, exhibits_of
from prmcal.harness.storage.written_folder import write_text

__all__ = ["Figure", "draw_figures", "without_tables"]

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
    """Write the figures of the report to a folder. Without Altair and vl-convert there are none.

    Parameters
    ----------
    published : Path
        The published copy of the database.
    folder : Path
        The folder of the files.
    prefix : str
        The beginning of their names.
    """
    if not can_draw():
        return []
    from prmcal.db.charts import style_sheet
    from prmcal.harness.report.figures import svg_of

    style, figures = f"<style>{style_sheet()}</style>", []
    for chart in exhibits_of(read_evidence(published)):
        if isinstance(chart, Chart):
            files = tuple(f"{prefix}{name}.svg" for name in chart.files())
            for file, picture in zip(files, chart.pictures, strict=True):
                text = re.sub(r"(<svg[^>]*>)", rf"\1{style}", svg_of(picture), count=1)
                write_text(folder / file, text)
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
