"""The tables of a report, each one function from the evidence to a Table."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.queries.catalog import METRICS
from prmcal.harness.report.evidence import Evidence, title_of
from prmcal.harness.report.exhibits import Panel, Row, Table

__all__ = ["calibrated", "table_1", "table_5"]

# The method that the paper proposes, under the name by which it is registered.
_PROPOSED = "quantile-lora"

# The metrics of the paper's Table 1, in its order.
_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")

# The paper's Table 5 has these; ours appends all others that were measured.
_TABLE_5 = ("adaptive_ce", "brier")


def table_1(evidence: Evidence) -> Table:
    """Errors of each PRM as it is and after calibration: Table 1 of the paper, for every PRM of the grid."""
    before, after = evidence.uncalibrated, calibrated(evidence)
    pair = [name for name in (before, after) if name is not None]
    metrics = [metric for metric in _TABLE_1 if metric in evidence.metrics] or _TABLE_1
    if len(pair) == 2:
        contents = f"with rewards as the PRM gives them ({before}) and after calibration ({after})"
    else:
        contents = f"with '{pair[0]}', the grid having nothing to set beside it"
    return Table(
        "table-1",
        "Table 1: before and after calibration",
        "Distance of rewards from success rates over the prefixes of the test questions, "
        f"{contents}; smaller is better. {_legend('the two')}",
        (_panel(evidence.among(pair), metrics),),
    )


def table_5(evidence: Evidence) -> Table:
    """All calibrators side by side: Table 5 of the paper, with every metric that was measured."""
    others = [metric for metric in evidence.metrics if metric not in _TABLE_5]
    return Table(
        "table-5",
        "Table 5: all calibrators",
        f"Each calibrator on the test questions, one metric after the other. {_legend('its row')}",
        tuple(_panel(evidence, [metric]) for metric in (*_TABLE_5, *others)),
    )


def calibrated(evidence: Evidence) -> str | None:
    """The calibrator that stands for "calibrated": the paper's method if the grid has it, else its last one.

    Never the one with the smallest error, which would be choosing on the test questions.
    """
    others = [name for name in evidence.calibrators if name != evidence.uncalibrated]
    proposed = [name for name in others if evidence.registered.get(name) == _PROPOSED]
    return next(iter([*proposed, *reversed(others)]), None)


def _panel(evidence: Evidence, metrics: Sequence[str]) -> Panel:
    """Calibrators in columns: of one metric that gives the panel its name, or of each metric under its head."""
    alone = metrics[0] if len(metrics) == 1 else ""
    return Panel(
        name=alone.replace("_", "-"),
        title=title_of(alone) if alone else "",
        description=_description(alone),
        groups=tuple(("" if alone else title_of(metric), evidence.calibrators) for metric in metrics),
        rows=tuple(
            Row(
                place,
                tuple(
                    evidence.value(place, calibrator, metric)
                    for metric in metrics
                    for calibrator in evidence.calibrators
                ),
            )
            for place in evidence.places
        ),
    )


def _description(metric: str) -> str:
    if metric not in METRICS:
        return ""
    good = {"lower": " Lower is better.", "higher": " Higher is better.", "near zero": " Near 0 is better."}
    return METRICS[metric].description + good.get(METRICS[metric].better or "", "")


def _legend(group: str) -> str:
    return (
        "Below each value its 95% interval, by bootstrap over questions; n counts prefixes / questions. "
        f"Bold is the best of {group}; = cannot be told from the best (paired bootstrap, p at least 0.05 after "
        "Holm's correction)."
    )
