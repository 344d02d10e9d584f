"""``prmcal report``: the tables and figures of the paper, from a published database. Queries belong in `prmcal.db`.

`evidence` reads the database once, `tables` and `figures` make the exhibits, and `writer` the folder.
"""

from prmcal.harness.report.writer import write_report

__all__ = ["write_report"]
