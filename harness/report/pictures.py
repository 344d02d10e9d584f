"""The pictures of figures, small multiples with the same axes in all panels, and their files."""

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import altair as alt
import pandas as pd
import vl_convert

from prmcal.db.charts import GREY, INK, PAPER, legend, style_sheet
from prmcal.harness.report.evidence import Evidence

_ONE_COLUMN, _TWO_COLUMNS = 234, 486  # widths of a column and of both columns of a page, in points
_PANEL_HEIGHT, _SPACE = 80, 12  # of panels, and between them
LINE_HEIGHT, SIDES, SMALL = 11, 62, 7
"""The height of a line of a panel, the room left and right of the panels of a picture, and the size of letters."""
_LEAST_COLUMN = 81  # points of a column of panels
_ROOMY = 3  # largest number of columns that leaves room for long lines
_LONGEST_LINE = 14  # of a head, in characters
_PPI = 200  # of PNG files. Print uses the PDF files.
_FONT = (
    "Liberation Sans"  # comes with vl-convert; a second font or weight would make the order of PDF files vary
)
_LETTERS = 1.6  # letters of a legend in the width of one letter of the dashboard
_Picture = TypeVar("_Picture", bound=alt.TopLevelMixin)
_RESOURCES = re.compile(rb"(/(?:ExtGState|Font|Pattern|Shading|XObject) <<\n)((?: +/\S+ \d+ 0 R\n)+)")


def with_dark_style(svg: str) -> str:
    """Return an SVG file with its own style: browsers apply the reader's colour scheme to it, also in ``<img>``."""
    return re.sub(r"(<svg[^>]*>)", rf"\1<style>{style_sheet()}</style>", svg, count=1)


def svg_of(picture: alt.TopLevelMixin) -> str:
    """Return a picture as SVG. Equal pictures give equal texts."""
    with alt.data_transformers.enable("default", max_rows=None):
        return vl_convert.vegalite_to_svg(picture.to_dict())


def files_of(picture: alt.TopLevelMixin) -> dict[str, bytes]:
    """Return a picture as PNG, PDF and SVG, by the suffix of its file. Equal pictures give equal files."""
    svg = svg_of(picture)
    # The order of the names of the resources of a page varies. The places of all objects stay the same.
    pdf = _RESOURCES.sub(
        lambda found: found[1] + b"".join(sorted(found[2].splitlines(keepends=True))),
        vl_convert.svg_to_pdf(svg),
    )
    return {"png": vl_convert.svg_to_png(svg, ppi=_PPI), "pdf": pdf, "svg": svg.encode()}


def of_kind(kind: str) -> alt.Chart:
    """Return a chart of the rows of one kind."""
    chart: alt.Chart = alt.Chart().transform_filter(f"datum.kind == '{kind}'")
    return chart


def is_crowded(evidence: Evidence) -> bool:
    """Return whether a picture has so many columns of panels that there is no room for long lines."""
    return len(evidence.prms) * len(evidence.datasets) > _ROOMY


def listed(evidence: Evidence) -> str:
    """Return the panels of :func:`small_multiples`, for readers who cannot see them."""
    return (
        f"{', '.join(evidence.llms)} (rows) with {', '.join(evidence.prms)} on {', '.join(evidence.datasets)}"
    )


def small_multiples(
    evidence: Evidence,
    rows: pd.DataFrame,
    draw: Callable[[float, alt.Legend], list[alt.Chart]],
    names: Sequence[str],
    title: str,
    *,
    lines: bool = True,
    height: float = _PANEL_HEIGHT,
    sides: float = SIDES,
) -> alt.FacetChart:
    """Draw one panel for each group, in a picture as wide as one column of a page, or as two for several columns.

    With more than six columns of panels, it is wider. `rows` are the data of all panels: dataset, prm, llm, kind, and
    the columns of the layers. `draw` returns the layers of a panel for its width and the legend; they have no data of
    their own. The legend has the names of series, with their lines or points. The title is that of the horizontal
    axes. `height` is that of a panel, and `sides` is the room for labels left and right of the panels.
    """
    heads = [
        f"{_wrapped(prm)}\n{_wrapped(dataset)}" for prm in evidence.prms for dataset in evidence.datasets
    ]
    rows = rows.assign(
        head=rows["prm"].map(_wrapped) + "\n" + rows["dataset"].map(_wrapped), side=rows["llm"].map(_wrapped)
    ).drop(columns=["prm", "dataset", "llm"])
    whole = _ONE_COLUMN if len(heads) == 1 else max(_TWO_COLUMNS, _LEAST_COLUMN * len(heads))
    width = (whole - sides - _SPACE * (len(heads) - 1)) / len(heads)
    shown = legend(names, lines=lines, width=_LETTERS * (whole - sides))
    shown["symbolSize"], shown["symbolStrokeWidth"] = (120, 3) if lines else (30, 0)
    picture = alt.layer(*draw(width, shown), data=rows).properties(width=width, height=height)
    return styled(
        picture.facet(
            row=alt.Row(
                "side:N", sort=list(map(_wrapped, evidence.llms)), title=None, header=_header("left")
            ),
            column=alt.Column("head:N", sort=heads, title=None, header=_header("top")),
            spacing=_SPACE,
            title=alt.TitleParams(title, orient="bottom", anchor="middle", offset=6),
        )
    )


def _header(orient: Literal["left", "top"]) -> alt.Header:
    return alt.Header(
        labelExpr="split(datum.label, '\\n')",
        labelOrient=orient,
        labelFontSize=SMALL,
        labelColor=INK,
        labelPadding=4,
        labelAngle=-90 if orient == "left" else 0,
    )


def styled(picture: _Picture, letters: int = SMALL) -> _Picture:
    """Return a picture in the style of all figures, with letters of a size in points."""
    found: _Picture = picture.configure(
        background=PAPER,
        font=_FONT,
        padding=4,
        axis=alt.AxisConfig(
            domainColor=GREY,
            grid=False,
            gridColor=GREY,
            gridOpacity=0.3,
            labelColor=INK,
            labelFontSize=letters,
            tickColor=GREY,
            tickSize=2.5,
            titleColor=INK,
            titleFontSize=letters + 1,
            titleFontWeight="normal",
        ),
        legend=alt.LegendConfig(labelColor=INK, labelFontSize=letters),
        title=alt.TitleConfig(color=INK, fontSize=letters + 1, fontWeight="normal"),
        view=alt.ViewConfig(stroke=None),
    )
    return found


def _wrapped(name: str) -> str:
    """Break a long name into several lines."""
    return "\n".join(textwrap.wrap(name, _LONGEST_LINE)) or name
