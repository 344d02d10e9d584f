"""The ranking of the calibrators, which is the first table."""

from __future__ import annotations

from prmcal.db.text.overview import ranking_columns, ranking_legend, ranking_table
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.exhibits.types import TextTable

__all__ = ["ranking"]


def ranking(evidence: Evidence) -> TextTable | None:
    """Make the ranking of the calibrators; None if no place has two measured calibrators."""
    found = evidence.overview
    if not found.ranking:
        return None
    meanings = " ".join(f"{column.title}: {column.meaning}" for column in ranking_columns(found)[2:])
    return TextTable(
        "ranking", "Ranking of the calibrators", f"{ranking_legend(found)} {meanings}", ranking_table(found)
    )
