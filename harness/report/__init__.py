"""``prmcal report``: the tables and figures of the paper, from a published database. Queries belong in `prmcal.db`.

    evidence    the contents of the database, read once
    exhibits    the types of tables and charts; a table as Markdown, CSV and LaTeX
    tables      the tables, one function each
    figures     the figures, one function each, as small multiples
    writer      the folder of the report, with the exhibits in their order

Equal databases give equal bytes: nothing here reads the clock.
"""

from prmcal.harness.report.writer import write_report

__all__ = ["write_report"]
