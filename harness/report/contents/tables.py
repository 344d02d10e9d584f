"""The tables of calibration errors, one function each."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.queries.leaderboard import reported
from prmcal.db.text.presentation import (
    COORDINATE_TITLES,
    LEADERBOARDS,
    standings_legend,
)
from prmcal.harness.report.contents.published import beside_published
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group, Value
from prmcal.harness.report.exhibits.types import Panel, Row, Table, labels_of

__all__ = ["calibrated", "legend", "other_metrics", "table_1", "table_4", "table_5"]

_MARKS = {"best": "bold", "tied": "="}

# The metrics of Tables 1, 4 and 5 of the paper, in their order, and the labels of the tables in `reported`.
_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")
_TABLE_4 = ("brier", "positive_brier")
_TABLE_5 = ("adaptive_ce", "brier")
_REPORTED = {1: "cal_qwen", 4: "calibration_72b", 5: "ats_comparison"}


def table_1(evidence: Evidence) -> Table:
    """Make the table of errors before and after calibration for every PRM of the grid: Table 1 of the paper."""
    pair = _before_and_after(evidence)
    metrics = [metric for metric in _TABLE_1 if metric in evidence.metrics] or _TABLE_1
    table = Table(
        "table-1",
        "Table 1: before and after calibration",
        "Errors of rewards, compared with success rates, over the prefixes of the test questions, "
        f"{_contents(pair)}. Lower is better. {legend('prefixes', 'the two calibrators')}",
        (_panel(evidence.among(pair), metrics),),
    )
    return beside_published(table, _REPORTED[1])


def table_4(evidence: Evidence) -> Table | None:
    """Make the table of all PRMs side by side, before and after calibration: Table 4 of the paper.

    The paper compares two sizes of one PRM. None if the grid has a single PRM.
    """
    if len(evidence.prms) < 2:
        return None
    pair = _before_and_after(evidence)
    metrics = [metric for metric in _TABLE_4 if metric in evidence.metrics] or _TABLE_4
    table = Table(
        "table-4",
        "Table 4: the PRMs side by side",
        "Errors of the rewards of every PRM, compared with success rates, over the prefixes of the test questions, "
        f"{_contents(pair)}. All PRMs judge the same solutions. "
        f"{legend('prefixes', 'the two calibrators of a PRM')} Values of different PRMs are not ranked; the command "
        "'prmcal compare' compares any two.",
        tuple(_side_by_side(evidence.among(pair), metric) for metric in metrics),
    )
    return beside_published(table, _REPORTED[4])


def table_5(evidence: Evidence) -> Table:
    """Make the table of all calibrators: Table 5 of the paper, and the metrics that the leaderboard shows."""
    table = Table(
        "table-5",
        "Table 5: all calibrators",
        f"All calibrators on the test questions, one panel for each metric. {legend('prefixes', 'its row')}",
        tuple(_panel(evidence, [metric]) for metric in _of_table_5(evidence)),
    )
    return beside_published(table, _REPORTED[5])


def other_metrics(evidence: Evidence) -> Table | None:
    """Make the table of all calibrators with the metrics that Table 5 leaves out."""
    others = [metric for metric in evidence.metrics if metric not in _of_table_5(evidence)]
    if not others:
        return None
    return Table(
        "other-metrics",
        "All other metrics",
        f"All calibrators on the test questions, one panel for each metric. {legend('prefixes', 'its row')}",
        tuple(_panel(evidence, [metric]) for metric in others),
    )


def _of_table_5(evidence: Evidence) -> list[str]:
    shown = LEADERBOARDS["calibration"].main_metrics
    return [*_TABLE_5, *(metric for metric in shown if metric in evidence.metrics and metric not in _TABLE_5)]


def calibrated(evidence: Evidence) -> str | None:
    """Return the calibrator for "after calibration": that of Table 1 of the paper, else the last of the grid.

    It is not the one with the lowest error, since that would be a choice on the test questions.
    """
    others = [name for name in evidence.calibrators if name != evidence.uncalibrated]
    of_paper = set(reported(table=_REPORTED[1])["calibrator"])
    proposed = [name for name in others if evidence.registered.get(name) in of_paper]
    return next(iter([*proposed, *reversed(others)]), None)


def _before_and_after(evidence: Evidence) -> list[str]:
    pair = (evidence.uncalibrated, calibrated(evidence))
    return [name for name in pair if name is not None]


def _contents(pair: Sequence[str]) -> str:
    if len(pair) == 2:
        return f"before calibration ({pair[0]}) and after ({pair[1]})"
    return f"with '{pair[0]}', the only calibrator to show"


def _side_by_side(evidence: Evidence, metric: str) -> Panel:
    """Make a panel with PRMs in columns. Cells that the grid has for no LLM and data set have no column."""
    places = [(dataset, llm) for dataset in evidence.datasets for llm in evidence.llms]

    def value(dataset: str, llm: str, prm: str, calibrator: str) -> Value:
        return evidence.value(Group(dataset, prm, llm), calibrator, metric)

    columns = {
        prm: tuple(
            each
            for each in evidence.calibrators
            if any(value(*place, prm, each).status != "missing" for place in places)
        )
        for prm in evidence.prms
    }
    return Panel(
        name=metric.replace("_", "-"),
        title=evidence.described.title(metric),
        description=_description(evidence, metric),
        coordinates=tuple(COORDINATE_TITLES[name] for name in ("dataset", "llm")),
        heads=tuple((prm, shown) for prm, shown in columns.items() if shown),
        rows=tuple(
            Row(place, tuple(value(*place, prm, each) for prm, shown in columns.items() for each in shown))
            for place in places
        ),
    )


def _panel(evidence: Evidence, metrics: Sequence[str]) -> Panel:
    """Make a panel with calibrators in columns. Several metrics are heads; a single metric is the title."""
    alone = metrics[0] if len(metrics) == 1 else ""
    return Panel(
        name=alone.replace("_", "-"),
        title=evidence.described.title(alone) if alone else "",
        description=_description(evidence, alone),
        heads=tuple(
            ("" if alone else evidence.described.title(metric), evidence.calibrators) for metric in metrics
        ),
        rows=tuple(
            Row(
                labels_of(group),
                tuple(
                    evidence.value(group, calibrator, metric)
                    for metric in metrics
                    for calibrator in evidence.calibrators
                ),
            )
            for group in evidence.groups
        ),
    )


def _description(evidence: Evidence, metric: str) -> str:
    described = evidence.described
    better = described.direction(metric)
    return f"{described.description(metric)}{f' {better.capitalize()}.' if better else ''}"


def legend(rows: str, group: str) -> str:
    """Explain intervals, counts and marks of a table whose values compete within `group`."""
    return (
        f"Below each value is its 95% interval over questions; n is the number of {rows} / questions. "
        f"Marks: {standings_legend(_MARKS, group)}"
    )
