"""The style of all charts, their files, and the layers that the charts of the dashboard and of the report share.

Each calibrator has a colour, a dash and a shape, the same in every chart. The eight colours follow Okabe and Ito. They
are moved apart so that readers with red-green blindness can distinguish each pair, and each has a contrast of at least
3:1 with the page. The ninth calibrator has the colour of the first with another dash and another shape, and so on.
Charts are drawn for a light page; :func:`on_dark` and :func:`style_sheet` replace their colours on a dark one.
"""

import re
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import altair as alt
import pandas as pd

Layers = alt.LayerChart | alt.FacetChart

UNIT = alt.Scale(domain=[0, 1], nice=False)
"""The scale of rewards, success rates and accuracies, from 0 to 1."""

INK, GREY, PAPER = "#31333F", "#7F8794", "#FFFFFF"
"""The colours of texts and guide lines, of secondary marks, and of the page. Grey is visible on dark pages too."""

_COLOURS = ("#5F6B7A", "#0985D1", "#A48348", "#419774", "#772241", "#982C00", "#004876", "#948B00")
_ON_DARK = ("#9AA5B5", "#249CF5", "#FBC102", "#2E9563", "#A56FB4", "#D0690A", "#8FC7FF", "#D7CA64")

BLUE, RUST = _COLOURS[1], _COLOURS[5]
"""The colours of better (or repaired) values, and of worse ones."""

DARK = {INK: "#E3E5EA", PAPER: "#12151C", **dict(zip(_COLOURS, _ON_DARK, strict=True))}
"""The colour on a dark page for each colour on a light one."""

_DASHES = ([1, 0], [8, 3], [2, 2], [8, 2, 2, 2])
_MARKS = ("circle", "square", "triangle-up", "diamond")
_DASH_OF_OTHERS = [4, 4]
_SHAPES = (*_MARKS, "cross", "triangle-down", "triangle-right", "triangle-left")
_LEGEND_COLUMN, _LEGEND_SYMBOL, _LETTER, _LONGEST_LABEL = 110, 30, 6, 240  # pixels
_ERRORS = alt.Scale(domain=[-1, 1], nice=False)

SMALL = 7
"""The size of the letters in a figure, in points."""
_PPI = 200  # of PNG files. Print uses the PDF files.
# It comes with vl-convert. A second font or weight would make the order of PDF files vary.
_FONT = "Liberation Sans"
_RESOURCES = re.compile(rb"(/(?:ExtGState|Font|Pattern|Shading|XObject) <<\n)((?: +/\S+ \d+ 0 R\n)+)")
_Picture = TypeVar("_Picture", bound=alt.TopLevelMixin)
_ONE_COLUMN, _TWO_COLUMNS = 234, 486  # widths of a column and of both columns of a page, in points
_PANEL_HEIGHT, _SPACE = 80, 12  # of panels, and between them
_SIDES, _LEAST_COLUMN = 62, 81  # the room left and right of the panels, and of a column of panels
_LONGEST_LINE = 14  # of a head, in characters
_LETTERS = 1.6  # letters of a legend in the width of one letter of the dashboard


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture with its name, its title and its caption in plain text, and its rows of data."""

    name: str
    title: str
    caption: str
    picture: alt.TopLevelMixin
    rows: pd.DataFrame


@dataclass(frozen=True)
class Series:
    """The style of the series in a chart: their names, colours, dashes of lines, and shapes of points."""

    names: list[str]
    colours: list[str]
    dashes: list[list[int]]
    shapes: list[str]

    def colour(self, field: str, shown_legend: alt.Legend | None) -> alt.Color:
        """Return the encoding of the colour."""
        return alt.Color(f"{field}:N", scale=self._scale(self.colours), sort=None, legend=shown_legend)

    def outline(self, field: str, shown_legend: alt.Legend | None) -> alt.Stroke:
        """Return the encoding of the outline of a bar."""
        return alt.Stroke(f"{field}:N", scale=self._scale(self.colours), sort=None, legend=shown_legend)

    def dash(self, field: str, shown_legend: alt.Legend | None) -> alt.StrokeDash:
        """Return the encoding of the dash of a line, which the legend shows unless it shows shapes."""
        legend = shown_legend if len(set(self.shapes)) == 1 else None
        return alt.StrokeDash(f"{field}:N", scale=self._scale(self.dashes), sort=None, legend=legend)

    def shape(self, field: str, shown_legend: alt.Legend | None) -> alt.Shape | alt.ShapeValue:
        """Return the encoding of the shape of a point. If all dashes are equal, the legend shows none."""
        if len(set(self.shapes)) == 1:
            return alt.ShapeValue(self.shapes[0])
        return alt.Shape(f"{field}:N", scale=self._scale(self.shapes), sort=None, legend=shown_legend)

    def _scale(self, values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=self.names, range=list(values))


def series_of(grid: Sequence[str], drawn_names: Collection[str]) -> Series:
    """Return the style of the series in a chart.

    `grid` has all calibrators, in the order of the grid. The position of a calibrator decides its style. Up to 32
    calibrators have different styles. `drawn_names` has the series in the chart. A series that is no calibrator of the
    grid is drawn in :data:`INK`, with dashed lines.
    """
    calibrators = [name for name in grid if name in drawn_names]
    others = sorted(set(drawn_names) - set(calibrators))
    rounds = [divmod(list(grid).index(name), len(_COLOURS)) for name in calibrators]
    return Series(
        [*calibrators, *others],
        [*(_COLOURS[position] for _, position in rounds), *[INK] * len(others)],
        [*(_DASHES[again % len(_DASHES)] for again, _ in rounds), *[_DASH_OF_OTHERS] * len(others)],
        [*(_MARKS[again % len(_MARKS)] for again, _ in rounds), *[_MARKS[0]] * len(others)],
    )


def with_shapes(series: Series) -> Series:
    """Return a style in which each series has a shape of its own, for print without colours."""
    return replace(series, shapes=[_SHAPES[position % len(_SHAPES)] for position in range(len(series.names))])


def legend(names: Sequence[str] | None = None, *, lines: bool = True, width: float | None = None) -> alt.Legend:
    """Return a legend above a chart, with as many series in a line as fit into its width in pixels.

    It lists some names or all series, with their lines and dashes or with points. By default the legend has the chart's
    width, which follows its container.
    """
    symbol: dict[str, Any] = {"symbolSize": 80}
    if lines:
        symbol = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolSize": 250}
    some = alt.Undefined if names is None else list(names)
    # The names are chosen by users.
    longest = _LEGEND_SYMBOL + _LETTER * max(map(len, names or ()), default=0)
    column = round(max(_LEGEND_COLUMN, min(longest, _LEGEND_SYMBOL + _LONGEST_LABEL)))
    fitting = alt.ExprRef(f"max(1, floor(width / {column}))") if width is None else max(1, width // column)
    return alt.Legend(
        orient="top",
        columns=fitting,
        title=None,
        labelLimit=_LONGEST_LABEL,
        symbolOpacity=1,
        values=some,
        padding=0,
        offset=8,
        rowPadding=2,
        **symbol,
    )


def tooltips(names: Sequence[str], numbers: Sequence[str], questions: str | None = "n") -> list[Any]:
    """Return the tooltips of a mark: columns with names, columns with numbers, and the column with the questions."""
    fields = [alt.Tooltip(f"{name}:N") for name in names]
    fields += [alt.Tooltip(f"{name}:Q", format=".4f") for name in numbers]
    if questions is not None:
        fields.append(alt.Tooltip(f"{questions}:Q", title="questions", format=","))
    return fields


def zero_line() -> alt.Chart:
    """Return a dashed vertical line at 0."""
    line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=INK, strokeDash=_DASH_OF_OTHERS)
    rule: alt.Chart = line.encode(x="x:Q")
    return rule


def diagonal() -> alt.Chart:
    """Return a dashed diagonal from (0, 0) to (1, 1)."""
    ends = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    line = alt.Chart(ends).mark_line(color=INK, strokeDash=_DASH_OF_OTHERS, strokeWidth=1)
    chart: alt.Chart = line.encode(x=alt.X("x:Q", scale=UNIT), y=alt.Y("y:Q", scale=UNIT))
    return chart


def curves(
    base: alt.Chart,
    y: alt.Y,
    series: Series,
    shown_legend: alt.Legend | None,
    *,
    by: str = "series",
    band: float = 0.0,
    rule: float = 0.0,
    point: float = 0.0,
    tooltip: Sequence[Any] = (),
    **encoded: Any,
) -> list[alt.Chart]:
    """Return the layers of curves: their 95% intervals, lines with dashes, and points with shapes.

    `base` has the data and the encoding of x, and `y` encodes a column ``NAME``, whose interval is in the columns
    ``NAME_low`` and ``NAME_high``. The column `by` has the series. `band` is the opacity of an area between the ends of
    the intervals, `rule` the opacity of their vertical rules, and `point` the size of points in square pixels; 0 is for
    none. Rules and points have the tooltip. Lines also have the encodings in `encoded`, such as their order.
    """
    name = y["shorthand"].partition(":")[0]
    low, high = alt.Y(f"{name}_low:Q", scale=y["scale"], title=y["title"]), f"{name}_high:Q"
    base = base.encode(color=series.colour(by, shown_legend))
    layers = []
    if band:
        layers.append(base.mark_area(opacity=band).encode(y=low, y2=high))
    if rule:
        rules = base.mark_rule(strokeWidth=2, opacity=rule)
        layers.append(rules.encode(y=low, y2=high, tooltip=list(tooltip)))
    layers.append(base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=series.dash(by, shown_legend), **encoded))
    if point:
        points = base.mark_point(filled=True, size=point, opacity=1)
        layers.append(points.encode(y=y, shape=series.shape(by, shown_legend), tooltip=list(tooltip)))
    return layers


def intervals(base: alt.Chart, value: alt.X | alt.Y, *, size: float = 60, **of_points: Any) -> list[alt.Chart]:
    """Return the layers of values with their 95% intervals: rules between the columns low and high, and points.

    `base` has the data, the other axis, colours and tooltips. Points have a size in square pixels, and other encodings
    such as their shape.
    """
    channel = "x" if isinstance(value, alt.X) else "y"
    low = value.copy()
    low["shorthand"] = "low:Q"
    return [
        base.mark_rule(strokeWidth=2).encode(**{channel: low, f"{channel}2": "high:Q"}),
        base.mark_point(filled=True, size=size, opacity=1).encode(**{channel: value}, **of_points),
    ]


def error_histograms(base: alt.Chart, y: alt.Y, series: Series, shown_legend: alt.Legend | None) -> alt.Chart:
    """Return histograms of the signed error of prefixes (reward minus success rate), one for each calibrator.

    `base` has the data: columns calibrator, lower, upper and the column of `y`.
    """
    x = alt.X(
        "lower:Q", bin="binned", scale=_ERRORS, title="Reward \N{MINUS SIGN} success rate (above 0: overestimated)"
    )
    colour, outline = series.colour("calibrator", shown_legend), series.outline("calibrator", shown_legend)
    bars = base.mark_bar(fillOpacity=0.35, strokeWidth=1.2)
    histograms: alt.Chart = bars.encode(x=x, x2="upper:Q", y=y, color=colour, stroke=outline)
    return histograms


def on_dark(spec: Any) -> Any:
    """Return a chart, or a part of one, with the colours of :data:`DARK`, for a dark page."""
    if isinstance(spec, str):
        return DARK.get(spec, spec)
    if isinstance(spec, (list, tuple)):
        return [on_dark(value) for value in spec]
    if isinstance(spec, dict):
        return {name: on_dark(value) for name, value in spec.items()}
    if isinstance(spec, alt.SchemaBase):
        dark = spec.copy(deep=False)
        for name, value in spec._kwds.items():
            if name not in ("data", "datasets"):
                dark._kwds[name] = on_dark(value)
        return dark
    return spec


def style_sheet() -> str:
    """Return the CSS that gives an SVG file of a chart the colours of :data:`DARK` if its reader prefers dark pages."""
    rules = " ".join(
        f'[{name}="{light}" i] {{ {name}: {dark}; }}' for light, dark in DARK.items() for name in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark) {{ {rules} }}"


def styled(picture: _Picture, letters: int = SMALL) -> _Picture:
    """Return a picture in the style of all figures, with letters of a size in points."""
    configured: _Picture = picture.configure(
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
    return configured


def small_multiples(
    rows: pd.DataFrame,
    draw: Callable[[alt.Legend], list[alt.Chart]],
    series: Series,
    title: str,
    *,
    height: float = _PANEL_HEIGHT,
    longest: int = 0,
) -> alt.FacetChart:
    """Draw panels in a picture for print: a row for each LLM, and a column for each PRM and data set, in their order.

    The picture is as wide as one column of a page, or as two for several columns of panels. `draw` returns the layers
    of a panel for the legend of the series; their data are the rows. The title is for the horizontal axes, and
    `longest` is the number of letters left of the panels.
    """
    names = rows[["llm", "prm", "dataset"]].map(lambda name: "\n".join(textwrap.wrap(name, _LONGEST_LINE)) or name)
    side, prm, dataset = (names[kind] for kind in names)
    data = rows.drop(columns=["llm", "prm", "dataset"]).assign(side=side, head=prm + "\n" + dataset)
    heads = list(data["head"].unique())
    picture_width = _ONE_COLUMN if len(heads) == 1 else max(_TWO_COLUMNS, _LEAST_COLUMN * len(heads))
    room = picture_width - _SIDES - 4 * min(30, longest)
    shown_legend = legend(series.names, lines=False, width=_LETTERS * room)
    shown_legend["symbolSize"], shown_legend["symbolStrokeWidth"] = 30, 0
    look: dict[str, Any] = {
        "labelExpr": "split(datum.label, '\\n')",
        "labelFontSize": SMALL,
        "labelColor": INK,
        "labelPadding": 4,
    }
    side_header, head_header = alt.Header(labelOrient="left", labelAngle=-90, **look), alt.Header(**look)
    width = (room - _SPACE * (len(heads) - 1)) / len(heads)
    picture = alt.layer(*draw(shown_legend), data=data).properties(width=width, height=height)
    return styled(
        picture.facet(
            row=alt.Row("side:N", sort=list(side.unique()), title=None, header=side_header),
            column=alt.Column("head:N", sort=heads, title=None, header=head_header),
            spacing=_SPACE,
            title=alt.TitleParams(title, orient="bottom", anchor="middle", offset=6),
        )
    )


def with_dark_style(svg: str) -> str:
    """Return an SVG file with its own style: browsers apply the reader's colour scheme to it, also in ``<img>``."""
    return re.sub(r"(<svg[^>]*>)", rf"\1<style>{style_sheet()}</style>", svg, count=1)


def svg_of(picture: alt.TopLevelMixin) -> str:
    """Return a picture as SVG. Equal pictures give equal texts."""
    import vl_convert

    with alt.data_transformers.enable("default", max_rows=None):
        return vl_convert.vegalite_to_svg(picture.to_dict())


def files_of(picture: alt.TopLevelMixin) -> dict[str, bytes]:
    """Return a picture as PNG, PDF and SVG, by the suffix of its file. Equal pictures give equal files."""
    import vl_convert

    svg = svg_of(picture)
    # The order of the names of the resources of a page varies. The positions of all objects stay the same.
    pdf = _RESOURCES.sub(
        lambda objects: objects[1] + b"".join(sorted(objects[2].splitlines(keepends=True))), vl_convert.svg_to_pdf(svg)
    )
    return {"png": vl_convert.svg_to_png(svg, ppi=_PPI), "pdf": pdf, "svg": svg.encode()}
