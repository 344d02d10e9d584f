"""``prmcal report``: the tables and figures of the paper, from a published database. Queries belong in `prmcal.db`.

    evidence, scaling_evidence   the contents of the database, read once
    exhibits                     the types of exhibits: tables and charts
    contents                     the exhibits of a report, in their order
    tables, scaling_tables       the tables, one function each
    figures, scaling_figures     the figures, one function each
    multiples, style             the layout, colours and markers of figures
    formats                      a table as Markdown, CSV and LaTeX
    index                        the README of the report
    writer                       the folder of the report

Equal databases give equal bytes: nothing here reads the clock.
"""

from prmcal.harness.report.writer import write_report

__all__ = ["write_report"]
