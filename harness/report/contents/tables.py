"""The tables of calibration errors, one function each."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.metrics import METRICS
from prmcal.db.queries.reported import reported
from prmcal.db.text.presentation import direction, metric_title, standings_legend
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.exhibits.types import Panel, Row, Table

__all__ = ["calibrated", "legend", "table_1", "table_5"]

_MARKS = {"best": "bold", "tied": "="}

# The metrics of Table 1 of the paper, in its order, and the label of the table in `reported`.
_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")
_REPORTED_TABLE_1 = "cal_qwen"

# Table 5 of the paper has these metrics. All other measured metrics follow them here.
_TABLE_5 = ("adaptive_ce", "brier")


def table_1(evidence: Evidence) -> Table:
    """Make the table of errors before and after calibration for every PRM of the grid: Table 1 of the paper."""
    before, after = evidence.uncalibrated, calibrated(evidence)
    pair = [name for name in (before, after) if name is not None]
    metrics = [metric for metric in _TABLE_1 if metric in evidence.metrics] or _TABLE_1
    if len(pair) == 2:
        contents = f"before calibration ({before}) and after ({after})"
    else:
        contents = f"with '{pair[0]}', the only calibrator to show"
    return Table(
        "table-1",
        "Table 1: before and after calibration",
        "Errors of rewards, compared with success rates, over the prefixes of the test questions, "
        f"{contents}. Lower is better. {legend('prefixes', 'the two calibrators')}",
        (_panel(evidence.among(pair), metrics),),
    )


def table_5(evidence: Evidence) -> Table:
    """Make the table of all calibrators and all measured metrics: Table 5 of the paper."""
    others = [metric for metric in evidence.metrics if metric not in _TABLE_5]
    return Table(
        "table-5",
        "Table 5: all calibrators",
        f"All calibrators on the test questions, one panel for each metric. {legend('prefixes', 'its row')}",
        tuple(_panel(evidence, [metric]) for metric in (*_TABLE_5, *others)),
    )


def calibrated(evidence: Evidence) -> str | None:
    """Return the calibrator for "after calibration": that of Table 1 of the paper, else the last of the grid.

    It is not the one with the lowest error, since that would be a choice on the test questions.
    """
    others = [name for name in evidence.calibrators if name != evidence.uncalibrated]
    of_paper = set(reported(table=_REPORTED_TABLE_1)["calibrator"])
    proposed = [name for name in others if evidence.registered.get(name) in of_paper]
    return next(iter([*proposed, *reversed(others)]), None)


def _panel(evidence: Evidence, metrics: Sequence[str]) -> Panel:
    """Make a panel with calibrators in columns. Several metrics are heads; a single metric is the title."""
    alone = metrics[0] if len(metrics) == 1 else ""
    return Panel(
        name=alone.replace("_", "-"),
        title=metric_title(alone) if alone else "",
        description=_description(alone),
        heads=tuple(("" if alone else metric_title(metric), evidence.calibrators) for metric in metrics),
        rows=tuple(
            Row(
                group,
                tuple(
                    evidence.value(group, calibrator, metric)
                    for metric in metrics
                    for calibrator in evidence.calibrators
                ),
            )
            for group in evidence.groups
        ),
    )


def _description(metric: str) -> str:
    if metric not in METRICS:
        return ""
    better = direction(metric)
    return f"{METRICS[metric].description}{f' {better.capitalize()}.' if better else ''}"


def legend(rows: str, group: str) -> str:
    """Explain intervals, counts and marks of a table whose values compete within `group`."""
    return (
        f"Below each value is its 95% interval by bootstrap over questions; n is the number of {rows} / questions. "
        f"Marks: {standings_legend(_MARKS, group)}"
    )
