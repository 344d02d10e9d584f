"""The tables of inference: what calibrated rewards buy with best-of-n and with beam search."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.queries.catalog import METRICS
from prmcal.harness.report.evidence import Evidence, Place, Value, title_of
from prmcal.harness.report.exhibits import Panel, Row, Table

__all__ = ["table_2", "table_3"]

_METRICS = ("accuracy", "budget_ratio", "samples")
_OLDER = "The grid has no such cell."


def table_2(evidence: Evidence) -> Table | None:
    """Best-of-n, fixed and with IAS: Table 2 of the paper, and Tables 6 and 7, for every PRM of the grid."""
    return _table(
        evidence,
        "table-2",
        "Table 2: best-of-n with instance-adaptive scaling",
        ("pass@1", "best-of-n"),
        ("best-of-n + IAS",),
    )


def table_3(evidence: Evidence) -> Table | None:
    """Beam search, fixed and with IAS: Table 3 of the paper, and Tables 8 and 9, for every PRM of the grid."""
    return _table(
        evidence,
        "table-3",
        "Table 3: beam search with instance-adaptive scaling",
        ("beam search",),
        ("beam search + IAS-of-K", "beam search + IAS-of-M"),
    )


def _table(
    evidence: Evidence, name: str, title: str, plain: Sequence[str], adaptive: Sequence[str]
) -> Table | None:
    """Nothing if the grid has none of the adaptive strategies."""
    fixed = [label for plugin in plain for label in evidence.scaling.labels(plugin)]
    groups = [label for plugin in adaptive for label in evidence.scaling.labels(plugin)]
    if not groups:
        return None
    return Table(
        name,
        title,
        f"Accuracy on the test questions, and what it costs, for C = {evidence.scaling.target:g} and the level beta "
        "nearest to 0.1 (a calibrator that gives a point estimate: its median). The budget ratio is the mean number of "
        "LLM calls over that of the fixed budget. Below each value its 95% interval, by bootstrap over questions; n "
        "counts trajectories / questions. Bold is the most accurate of its row; = cannot be told from it (paired "
        "bootstrap, p at least 0.05 after Holm's correction).",
        tuple(_panel(evidence, metric, fixed, groups) for metric in _METRICS),
    )


def _panel(evidence: Evidence, metric: str, fixed: Sequence[str], groups: Sequence[str]) -> Panel:
    used = evidence.scaling.cells
    calibrators = {
        label: tuple(
            each
            for each in evidence.calibrators
            if ((used["strategy"] == label) & (used["calibrator"] == each)).any()
        )
        for label in groups
    }
    return Panel(
        name=metric.replace("_", "-"),
        title=title_of(metric),
        description=METRICS[metric].description,
        groups=(
            *(((("", tuple(fixed))),) if fixed else ()),
            *((label, calibrators[label]) for label in groups),
        ),
        rows=tuple(
            Row(
                place,
                (
                    *(_value(evidence, place, label, None, metric) for label in fixed),
                    *(
                        _value(evidence, place, label, each, metric)
                        for label in groups
                        for each in calibrators[label]
                    ),
                ),
            )
            for place in evidence.places
        ),
    )


def _value(evidence: Evidence, place: Place, strategy: str, calibrator: str | None, metric: str) -> Value:
    """A value of a strategy; `calibrator` names its column where there is one, else the strategy does."""
    import pandas as pd

    cells = evidence.scaling.cells
    here = cells[
        (cells["dataset"] == place.dataset)
        & (cells["llm"] == place.llm)
        & (cells["strategy"] == strategy)
        & (cells["prm"].isna() | (cells["prm"] == place.prm))
        & (cells["calibrator"].isna() if calibrator is None else cells["calibrator"] == calibrator)
    ]
    column = calibrator or strategy
    if here.empty:
        return Value(place, column, metric, "missing", reason=_OLDER)
    found = here[here["metric"] == metric]
    row = (here if found.empty else found).iloc[0]
    if found.empty:
        reason = {"failed": f"Failed: {row['reason']}", "pending": "Pending: the run is not finished."}
        return Value(
            place, column, metric, row["status"], reason=reason.get(row["status"], "It was not measured.")
        )
    known = {
        name: None if pd.isna(row[name]) else row[name]
        for name in ("value", "low", "high", "questions", "standing")
    }
    rows = None if pd.isna(row["rows"]) else row["rows"]
    return Value(place, column, metric, row["status"], prefixes=rows, **known)
