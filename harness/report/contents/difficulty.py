"""Figure 4 of the paper, accuracy by difficulty, with its numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.harness.report.contents.scaling_tables import strategies_of_paper
from prmcal.harness.report.contents.tables import calibrated
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.scaling import strategy_value
from prmcal.harness.report.evidence.values import Group, Value
from prmcal.harness.report.exhibits.multiples import listed, small_multiples
from prmcal.harness.report.exhibits.style import GUIDE, SMALL, colours
from prmcal.harness.report.exhibits.types import Chart, Panel, Row, Table, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure_4", "figure_4_in_numbers"]

_FIXED = (1, 4, 16, 64)
_DASHES: tuple[Any, ...] = ((0, (1, 2)), (0, (3, 2)), (0, (8, 2)), "-")


@dataclass(frozen=True)
class _ByDifficulty:
    """What Figure 4 shows of a run: data sets with several difficulties, one strategy and one calibrator.

    Attributes
    ----------
    evidence : Evidence
        The evidence with these data sets only.
    strategy, calibrator : str
    level, target : float
        beta and C of the strategy.
    fixed : tuple of int
        The values of n with a line.
    """

    evidence: Evidence
    strategy: str
    calibrator: str
    level: float
    target: float
    fixed: tuple[int, ...]

    def difficulties(self, dataset: str) -> list[int]:
        points = self.evidence.scaling.points
        return sorted(map(int, points.loc[points["dataset"] == dataset, "question_level"].dropna().unique()))

    def adaptive(self, group: Group, difficulty: int, metric: str) -> Value:
        """Return the accuracy or the samples of IAS."""
        cells = self.evidence.scaling.by_difficulty
        here = cells[cells["question_level"] == difficulty]
        value = strategy_value(here, group, self.strategy, self.calibrator, metric)
        if value.reason is not None:  # the reason is that of the cell over all questions
            whole = strategy_value(self.evidence.scaling.cells, group, self.strategy, self.calibrator, metric)
            value = replace(value, status=whole.status, reason=whole.reason or "It was not measured.")
        return replace(value, question_level=difficulty)

    def at_fixed(self, group: Group, difficulty: int, n: int) -> Value:
        """Return the accuracy of best-of-n with the same n for every question."""
        points = self.evidence.scaling.curves(group)
        here = points[
            points["calibrator"].isna() & (points["question_level"] == difficulty) & (points["samples"] == n)
        ]
        name = f"n = {n}"
        if here.empty:
            reason = "The run has no curve of it yet."
            return Value(
                group, None, "accuracy", "missing", reason=reason, strategy=name, question_level=difficulty
            )
        row = here.iloc[0]
        low, high = (
            None if end != end else float(end) for end in (row["accuracy_low"], row["accuracy_high"])
        )
        return Value(
            group,
            None,
            "accuracy",
            "done",
            float(row["accuracy"]),
            low,
            high,
            questions=int(row["questions"]),
            strategy=name,
            question_level=difficulty,
        )


def figure_4(evidence: Evidence) -> Chart | None:
    """Make Figure 4 of the paper for every group: accuracy by difficulty, with fixed n and with IAS."""
    shown = _shown(evidence)
    if shown is None:
        return None
    from matplotlib.lines import Line2D

    colour = colours(evidence.calibrators)[shown.calibrator]

    def draw(axes: Axes, group: Group) -> None:
        difficulties = shown.difficulties(group.dataset)
        for n, dashes in zip(shown.fixed, _DASHES, strict=False):
            fixed = [shown.at_fixed(group, each, n) for each in difficulties]
            _line(axes, fixed, color=GUIDE, linestyle=dashes, label=f"n = {n}")
        stars = [shown.adaptive(group, each, "accuracy") for each in difficulties]
        _line(axes, stars, color=colour, linestyle="", marker="*", markersize=6, label="IAS")
        for difficulty, star in zip(difficulties, stars, strict=True):
            if star.low is not None and star.high is not None:
                axes.plot((difficulty, difficulty), (star.low, star.high), color=colour, linewidth=1.1)
            samples = shown.adaptive(group, difficulty, "samples").value
            if samples is not None:
                text = f"{samples:.1f}" if samples < 10 else f"{samples:.0f}"
                axes.text(difficulty, -0.13, text, ha="center", va="center", fontsize=SMALL, color=colour)
        axes.set(xlim=(0.5, 5.5), ylim=(-0.22, 1.06), xticks=range(1, 6), yticks=(0, 0.25, 0.5, 0.75, 1))

    handles = [
        *(
            Line2D([], [], color=GUIDE, linestyle=each, label=f"n = {n}")
            for n, each in zip(shown.fixed, _DASHES, strict=False)
        ),
        Line2D(
            [],
            [],
            color=colour,
            linewidth=1.1,
            marker="*",
            markersize=6,
            label=f"{shown.strategy}, {shown.calibrator}",
        ),
    ]
    pictures = small_multiples(shown.evidence, draw, row_height=1.25, handles=handles)
    for picture in pictures:
        picture.supxlabel("difficulty")
        picture.supylabel("accuracy")
    return Chart(
        "figure-4",
        "Figure 4: accuracy by difficulty",
        "Accuracy by difficulty of the questions, from 1 (easy) to 5. Lines: best-of-n with the same n for every "
        f"question; longer dashes mean larger n, and the line of the largest is solid. Stars: '{shown.strategy}' "
        f"with '{shown.calibrator}', C = {shown.target:g} and beta = {shown.level:g}, with 95% intervals over "
        "questions. At the bottom is its mean number of samples. Data sets without several "
        "difficulties are left out. The table below has the numbers.",
        f"Accuracy by difficulty for {listed(shown.evidence)}.",
        pictures,
    )


def figure_4_in_numbers(evidence: Evidence) -> Table | None:
    """Make the table of the numbers in Figure 4."""
    shown = _shown(evidence)
    if shown is None:
        return None
    places = [(group, each) for group in shown.evidence.groups for each in shown.difficulties(group.dataset)]
    panel = Panel(
        name="",
        title="",
        description="",
        coordinates=(*(COORDINATE_TITLES[name] for name in ("dataset", "prm", "llm")), "Difficulty"),
        heads=(
            ("Accuracy", tuple(f"n = {n}" for n in shown.fixed)),
            (shown.strategy, ("Accuracy", "Samples")),
        ),
        rows=tuple(
            Row(
                (*labels_of(group), str(each)),
                (
                    *(shown.at_fixed(group, each, n) for n in shown.fixed),
                    *(shown.adaptive(group, each, metric) for metric in ("accuracy", "samples")),
                ),
            )
            for group, each in places
        ),
    )
    return Table(
        "figure-4-numbers",
        "Figure 4 in numbers",
        f"Accuracy of best-of-n with a fixed n, and accuracy and mean samples of '{shown.strategy}' with "
        f"'{shown.calibrator}', C = {shown.target:g} and beta = {shown.level:g}, by difficulty of the questions. Below "
        "each value is its 95% interval over questions; n is the number of trajectories / questions. "
        "Values are not ranked.",
        (panel,),
    )


def _shown(evidence: Evidence) -> _ByDifficulty | None:
    """Return what Figure 4 shows, or None if the run has no data set with several difficulties or no IAS."""
    scaling, calibrator = evidence.scaling, calibrated(evidence)
    _, adaptive = strategies_of_paper(evidence, "bon_qwen")
    points = scaling.points[scaling.points["question_level"].notna()]
    several = points.groupby("dataset")["question_level"].nunique()
    datasets = tuple(each for each in evidence.datasets if several.get(each, 0) > 1)
    cells = scaling.cells[scaling.cells["calibrator"] == calibrator]
    used: Sequence[str] = [each for each in adaptive if (cells["strategy"] == each).any()]
    if calibrator is None or scaling.target is None or not datasets or not used:
        return None
    return _ByDifficulty(
        evidence=replace(evidence, datasets=datasets),
        strategy=used[0],
        calibrator=calibrator,
        level=float(cells.loc[cells["strategy"] == used[0], "level"].iloc[0]),
        target=scaling.target,
        fixed=tuple(n for n in _FIXED if (points["samples"] == n).any()),
    )


def _line(axes: Axes, values: Sequence[Value], **style: object) -> None:
    known = [(each.question_level, each.value) for each in values if each.value is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], **style)  # type: ignore[arg-type]
