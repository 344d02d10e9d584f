"""The exhibits of a report, in their order. A new table or figure needs one function and one entry here."""

from __future__ import annotations

from collections.abc import Callable

from prmcal.harness.report.contents.figures import figure_2, figure_3, figure_3_adaptive_ce
from prmcal.harness.report.contents.scaling_figures import ablation_of_beta, ablation_of_target, figure_4
from prmcal.harness.report.contents.scaling_tables import table_2, table_3
from prmcal.harness.report.contents.tables import table_1, table_5
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.exhibits.types import Exhibit

__all__ = ["CONTENTS"]

CONTENTS: tuple[Callable[[Evidence], Exhibit | None], ...] = (
    figure_2,
    table_1,
    figure_3,
    figure_3_adaptive_ce,
    table_5,
    table_2,
    table_3,
    figure_4,
    ablation_of_target,
    ablation_of_beta,
)
"""Functions that make an exhibit. A function returns None if the grid has no results for its exhibit."""
