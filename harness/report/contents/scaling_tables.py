"""The tables of strategies: best-of-n and beam search, with and without IAS."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.metrics import METRICS
from prmcal.db.queries.reported import reported
from prmcal.db.text.presentation import metric_title
from prmcal.harness.report.contents.tables import legend
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group, Value
from prmcal.harness.report.exhibits.types import Panel, Row, Table

__all__ = ["table_2", "table_3"]

_METRICS = ("accuracy", "budget_ratio", "samples")
_NO_CELL = "The grid has no such cell."


def table_2(evidence: Evidence) -> Table | None:
    """Make the table of best-of-n for every PRM of the grid: Tables 2, 6 and 7 of the paper."""
    return _table(evidence, "table-2", "Table 2: best-of-n with instance-adaptive scaling", "bon_qwen")


def table_3(evidence: Evidence) -> Table | None:
    """Make the table of beam search for every PRM of the grid: Tables 3, 8 and 9 of the paper."""
    return _table(evidence, "table-3", "Table 3: beam search with instance-adaptive scaling", "bs_qwen")


def _table(evidence: Evidence, name: str, title: str, label: str) -> Table | None:
    """Make a table with the strategies of a table of the paper; None if the grid has none with a calibrator."""
    rows = reported(table=label)
    calibrated = rows["calibrator"].notna()
    fixed, heads = (
        [each for plugin in used["strategy"].unique() for each in evidence.scaling.named(plugin)]
        for used in (rows[~calibrated], rows[calibrated])
    )
    if not heads:
        return None
    return Table(
        name,
        title,
        f"Accuracy and cost on the test questions, for C = {evidence.scaling.target:g} and the level beta nearest to "
        "0.1 (the median for calibrators with a point estimate). The budget ratio is the mean number of LLM calls, "
        f"divided by that of the fixed budget. {legend('trajectories', 'its row')}",
        tuple(_panel(evidence, metric, fixed, heads) for metric in _METRICS),
    )


def _panel(evidence: Evidence, metric: str, fixed: Sequence[str], heads: Sequence[str]) -> Panel:
    used = evidence.scaling.cells
    calibrators = {
        label: tuple(
            each
            for each in evidence.calibrators
            if ((used["strategy"] == label) & (used["calibrator"] == each)).any()
        )
        for label in heads
    }
    return Panel(
        name=metric.replace("_", "-"),
        title=metric_title(metric),
        description=METRICS[metric].description,
        heads=(
            *(((("", tuple(fixed))),) if fixed else ()),
            *((label, calibrators[label]) for label in heads),
        ),
        rows=tuple(
            Row(
                group,
                (
                    *(_value(evidence, group, label, None, metric) for label in fixed),
                    *(
                        _value(evidence, group, label, each, metric)
                        for label in heads
                        for each in calibrators[label]
                    ),
                ),
            )
            for group in evidence.groups
        ),
    )


def _value(evidence: Evidence, group: Group, strategy: str, calibrator: str | None, metric: str) -> Value:
    """Return the value of a strategy. Its column has the name of the calibrator, or else of the strategy."""
    import pandas as pd

    cells = evidence.scaling.cells
    here = cells[
        (cells["dataset"] == group.dataset)
        & (cells["llm"] == group.llm)
        & (cells["strategy"] == strategy)
        & (cells["prm"].isna() | (cells["prm"] == group.prm))
        & (cells["calibrator"].isna() if calibrator is None else cells["calibrator"] == calibrator)
    ]
    column = calibrator or strategy
    if here.empty:
        return Value(group, column, metric, "missing", reason=_NO_CELL)
    found = here[here["metric"] == metric]
    row = (here if found.empty else found).iloc[0]
    if found.empty:
        reason = {"failed": f"Failed: {row['reason']}", "pending": "Pending: the run is not finished."}
        return Value(
            group, column, metric, row["status"], reason=reason.get(row["status"], "It was not measured.")
        )
    known = {
        name: None if pd.isna(row[name]) else row[name]
        for name in ("value", "low", "high", "questions", "standing")
    }
    rows = None if pd.isna(row["rows"]) else row["rows"]
    return Value(group, column, metric, row["status"], prefixes=rows, **known)
