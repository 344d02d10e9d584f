"""The numbers of the paper beside the measured ones."""

from __future__ import annotations

from dataclasses import replace

from prmcal.db.queries.leaderboard import reported
from prmcal.harness.report.evidence.values import Value
from prmcal.harness.report.exhibits.types import Table

__all__ = ["beside_published"]

_LEGEND = (
    "'paper' is the number that the paper reports for the same names. Such numbers have no interval here and are not "
    "ranked."
)


def beside_published(table: Table, *labels: str) -> Table:
    """Return a table with the numbers of some tables of the paper beside the values with the same names.

    Parameters
    ----------
    table : Table
    *labels : str
        Keys of :data:`prmcal.db.queries.leaderboard.REPORTED_TABLES`.
    """
    names = ["dataset", "llm", "prm", "calibrator", "strategy", "metric"]
    rows = reported()
    rows = rows[rows["table"].isin(labels)]
    keys = rows[names].astype(object).where(rows[names].notna(), None).itertuples(index=False, name=None)
    texts = (f"{value:.{digits}f}" for value, digits in zip(rows["value"], rows["digits"], strict=True))
    numbers = dict(zip(keys, texts, strict=True))

    def joined(value: Value) -> Value:
        ends = (value.calibrator, value.strategy, value.metric)
        # The paper gives no PRM for a strategy that does not use one.
        own, any_prm = ((value.group.dataset, value.group.llm, prm, *ends) for prm in (value.group.prm, None))
        return replace(value, published=numbers.get(own, numbers.get(any_prm)))

    panels = tuple(
        replace(panel, rows=tuple(replace(row, values=tuple(map(joined, row.values))) for row in panel.rows))
        for panel in table.panels
    )
    found = replace(table, panels=panels)
    if not any(value.published for value in found.values()):
        return table
    return replace(found, caption=f"{table.caption} {_LEGEND}")
