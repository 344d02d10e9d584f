"""``prmcal report``: the tables and figures of the paper, from a published database. Queries belong in `prmcal.db`.

    evidence    the contents of the database, read once
    exhibits    the types of tables and charts, and how charts are drawn
    contents    the tables and figures, one function each, in their order
    formats     a table as Markdown and CSV
    latex       a table as LaTeX floats that fit a page
    index       the README of the report
    writer      the folder of the report

Equal databases give equal bytes: nothing here reads the clock.
"""

from prmcal.harness.report.writer import write_report

__all__ = ["write_report"]
