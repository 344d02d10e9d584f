"""The leaderboards as a static site, without a server: ``prmcal export``.

    prmcal.harness.site.contents   what stands on the page, from the database
    prmcal.harness.site.writer     the folder
    page.html, style.css, script.js   what the page is made of; all names and reasons are escaped

One page holds everything but the figures. Its script sorts and filters; without it the tables are all there.
"""

from __future__ import annotations

from prmcal.harness.site.writer import write_site

__all__ = ["write_site"]
