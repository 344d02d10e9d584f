"""The loading time of the dashboard's pages in a browser with an empty cache: first paint, heading, complete page.

python -m benchmarks.analysis.first_paint [DIR]

DIR is the output folder of a run, by default that of `make demo`. The benchmark needs Playwright and Chromium. At the
first visit of a page, the server has no cached results. At the second visit, it has cached them.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tools.screenshots import background_server

PAGES = ("leaderboard", "calibration", "scaling", "compare", "trajectories", "runs")
VISITS = ("first", "second")
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"


def seconds_of(browser: Browser, address: str) -> tuple[float, float, float]:
    """Return the seconds until the first contentful paint, the heading, and the end of the page's script."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.get_by_role("heading", level=1).wait_for()
    heading = time.perf_counter() - start
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    whole = time.perf_counter() - start
    painted = page.evaluate(PAINTED)
    page.close()
    return painted, heading, whole


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano")
    print(f"{'page':<14}{'visit':<8}{'painted':>8}{'heading':>9}{'all':>7}  seconds")
    with background_server(directory) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for visit in VISITS:
            for page in PAGES:
                path = "" if page == "leaderboard" else page
                painted, heading, whole = seconds_of(browser, f"{address}/{path}")
                print(f"{page:<14}{visit:<8}{painted:>8.2f}{heading:>9.2f}{whole:>7.2f}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
