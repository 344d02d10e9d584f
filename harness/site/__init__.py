"""``prmcal export --html``: the leaderboards as a static site that needs no server. The numbers come from `prmcal.db`.

    contents                          the contents of the page, from the database
    writer                            the folder of the site
    page.html, style.css, script.js   the template, style and script of the page

The site is one page with images. All names and reasons are escaped. The script sorts and filters the tables; without
it, the page shows them completely.
"""

from __future__ import annotations

from prmcal.harness.site.writer import write_site

__all__ = ["write_site"]
