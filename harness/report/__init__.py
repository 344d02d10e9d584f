"""``prmcal report``: twins of the paper's tables and figures, written from the published database alone.

    evidence   what the database says, read once
    exhibits   what an exhibit is (a table, a figure), and the list of those that a report has
    tables     the tables, each one function
    figures    the figures, each one function
    style      colours, markers and type, in one place
    formats    a table as Markdown, CSV and LaTeX
    index      the report's README
    writer     the folder: written whole or not at all

The same database gives the same bytes: nothing here reads the clock.
"""

from prmcal.harness.report.writer import write_report

__all__ = ["write_report"]
