"""Published results: the leaderboards of runs as a static site that needs no server, and exports.

    writer                 the folder of the site, its pages, tables and figures
    publishing             the site and the exports of a merged leaderboard, and a results repository
    page.html              what all pages share
    run.html, runs.html    the page of a run, and the first page if there are several
    template/              the files of a results repository
    every_eval_ever        the finished cells as records of the schema Every Eval Ever
    submission.html        the page of a submission; submission_facts.html is also part of the index of submissions
    style.css              the style of the pages

The tables and the overview are those of the dashboard: `prmcal.db.html`. All names and reasons are escaped. Without a
script, the page has the submissions, the overview, the figures and the files in CSV format.
"""

from prmcal.harness.site.writer import write_site

__all__ = ["write_site"]
