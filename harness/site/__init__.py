"""Pages that need no server: the results of a run as one file, and what all pages share.

    writer                  the page of a run
    boards.js               its tables sort and search
    run.html                what the page shows
    page.html, style.css    what all pages share, also the report of an audit

The overview and the league are as in the dashboard: `prmcal.db.html`. All names and reasons are escaped. Without a
script, the page has the overview, the figures and the leaderboards in CSV format.
"""

from prmcal.harness.site.writer import write_page

__all__ = ["write_page"]
