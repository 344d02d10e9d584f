"""Pictures of every page, light and dark, wide and narrow: ``python -m prmcal.dashboard.serving.screenshots DIR OUT``.

It needs Playwright and Chromium, and starts a server of its own for the output folder DIR of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from pathlib import Path

from prmcal.dashboard.serving.temporary import serving

VIEWS = {
    "leaderboard": "",
    "leaderboard-scaling": "?table=Scaling",
    "leaderboard-costs": "?table=Costs",
    "leaderboard-paper": "?table=Paper",
    "calibration": "calibration",
    "calibration-rivals": "calibration?view=Calibrators",
    "calibration-all": "calibration?view=All+LLMs+and+data+sets",
    "scaling": "scaling",
    "scaling-difficulty": "scaling?view=Difficulty",
    "scaling-risk": "scaling?view=Risk+and+coverage",
    "compare": "compare",
    "trajectories": "trajectories",
    "runs": "runs",
}
WIDTHS = {"wide": 1280, "narrow": 390}
_HEIGHT = 1000
_TALLEST = 4000
_PATIENCE = 120_000  # milliseconds
_DRAWN = "() => !document.querySelector('[data-testid=stMain] [data-testid=stSkeleton]')"


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m prmcal.dashboard.serving.screenshots", description=__doc__
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the pictures")
    parser.add_argument("--only", nargs="*", choices=list(VIEWS), help="these views only")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with serving(arguments.directory) as address:
        _take(address, arguments.out, arguments.only or list(VIEWS))


def _take(address: str, out: Path, names: list[str]) -> None:
    from playwright.sync_api import TimeoutError, sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for colours in ("light", "dark"):
            for size, width in WIDTHS.items():
                page = browser.new_page(
                    viewport={"width": width, "height": _HEIGHT},
                    color_scheme=colours,
                )
                page.set_default_timeout(_PATIENCE)
                for name in names:
                    start = time.perf_counter()
                    page.goto(f"{address}/{VIEWS[name]}")
                    page.get_by_role("heading", level=1).wait_for()
                    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
                    with contextlib.suppress(TimeoutError):  # what is folded away may never be drawn
                        page.wait_for_function(_DRAWN, timeout=30_000)
                    seconds = time.perf_counter() - start
                    page.wait_for_timeout(600)  # charts are drawn, menus folded
                    # Pages scroll inside: a picture holds what a window of their height would show.
                    main = page.get_by_test_id("stMain")
                    height = min(_TALLEST, main.evaluate("element => element.scrollHeight"))
                    page.set_viewport_size({"width": width, "height": max(_HEIGHT, height)})
                    page.wait_for_timeout(300)
                    page.screenshot(path=out / f"{name}-{colours}-{size}.png")
                    page.set_viewport_size({"width": width, "height": _HEIGHT})
                    print(f"{name}-{colours}-{size}: shown after {seconds:.2f} s")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
