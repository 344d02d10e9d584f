"""The exhibits of a report, in their order. A new table or figure needs one function and one entry here.

    ranking                            the calibrators, the best first
    tables, figures                    errors of rewards, before and after calibration
    histograms                         the errors in full
    scaling_tables, scaling_figures    strategies
    difficulty                         strategies by difficulty of the questions
    theorem_1                          what Theorem 1 promises
    published                          the numbers of the paper beside the measured ones

How the results are read belongs in `prmcal.harness.report.evidence`.
"""

from __future__ import annotations

from collections.abc import Callable

from prmcal.harness.report.contents.difficulty import figure_4, figure_4_in_numbers
from prmcal.harness.report.contents.figures import figure_2, figure_3, figure_3_main_metric
from prmcal.harness.report.contents.histograms import figures_7_and_8
from prmcal.harness.report.contents.ranking import ranking
from prmcal.harness.report.contents.scaling_figures import ablation_of_beta, ablation_of_target
from prmcal.harness.report.contents.scaling_tables import table_2, table_3
from prmcal.harness.report.contents.tables import other_metrics, table_1, table_4, table_5
from prmcal.harness.report.contents.theorem_1 import theorem_1
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.exhibits.types import Exhibit

__all__ = ["CONTENTS"]

CONTENTS: tuple[Callable[[Evidence], Exhibit | None], ...] = (
    ranking,
    figure_2,
    table_1,
    figure_3,
    figure_3_main_metric,
    figures_7_and_8,
    table_4,
    table_5,
    table_2,
    table_3,
    theorem_1,
    figure_4,
    figure_4_in_numbers,
    ablation_of_target,
    ablation_of_beta,
    other_metrics,
)
"""Functions that make an exhibit. A function returns None if the grid has no results for its exhibit."""
