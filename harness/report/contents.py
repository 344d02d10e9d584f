"""What a report contains, in its order. A new table or figure is one function and one entry here."""

from __future__ import annotations

from collections.abc import Callable

from harness.report.evidence import Evidence
from harness.report.exhibits import Exhibit
from harness.report.figures import figure_2, figure_3, figure_3_adaptive_ce
from harness.report.tables import table_1, table_5

__all__ = ["CONTENTS"]

CONTENTS: tuple[Callable[[Evidence], Exhibit], ...] = (
    figure_2,
    table_1,
    figure_3,
    figure_3_adaptive_ce,
    table_5,
)
