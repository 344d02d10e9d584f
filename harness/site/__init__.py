"""Published results: the leaderboards of runs as a static site that needs no server, and exports.

    writer                 the folder of the site, its pages, tables and figures
    page.html              what all pages share
    run.html, runs.html    the page of a run, and the first page if there are several
    style.css              the style of the pages

The tables and the overview are those of the dashboard: `prmcal.db.html`. All names and reasons are escaped. Without a
script, the page has the overview, the figures and the files in CSV format.
"""

from prmcal.harness.site.writer import write_site

__all__ = ["write_site"]
