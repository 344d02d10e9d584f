"""The figures of the report for a page that is light or dark.

A figure is an SVG file with its own style: the browser applies the reader's colour scheme to it, also inside ``<img>``.
"""

from __future__ import annotations

import re
from pathlib import Path

from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.writer import can_draw, exhibits_of
from prmcal.harness.storage.written_folder import write_text

__all__ = ["draw_figures"]


def draw_figures(published: Path, folder: Path, prefix: str) -> list[tuple[Chart, list[str]]]:
    """Write the figures of the report to a folder. Without Altair and vl-convert there are none.

    Parameters
    ----------
    published : Path
        The published copy of the database.
    folder : Path
        The folder of the files.
    prefix : str
        The beginning of their names.

    Returns
    -------
    list of (Chart, list of str)
        Each figure with the names of its files.
    """
    if not can_draw():
        return []
    from prmcal.db.charts import style_sheet
    from prmcal.harness.report.figures import svg_of

    style, figures = f"<style>{style_sheet()}</style>", []
    for chart in exhibits_of(read_evidence(published)):
        if isinstance(chart, Chart):
            files = [f"{prefix}{name}.svg" for name in chart.files()]
            for file, picture in zip(files, chart.pictures, strict=True):
                text = re.sub(r"(<svg[^>]*>)", rf"\1{style}", svg_of(picture), count=1)
                write_text(folder / file, text)
            figures.append((chart, files))
    return figures
