"""Pictures of every page, light and dark, wide and narrow: ``python -m dashboard.screenshots DIR OUT``.

It needs Playwright and Chromium, and starts a server of its own for the output folder DIR of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

VIEWS = {
    "leaderboard": "",
    "leaderboard-scaling": "?table=Scaling",
    "leaderboard-costs": "?table=Costs",
    "leaderboard-paper": "?table=Paper",
    "calibration": "calibration",
    "calibration-rivals": "calibration?view=Calibrators",
    "calibration-all": "calibration?view=All+LLMs+and+data+sets",
}
WIDTHS = {"wide": 1280, "narrow": 390}
_HEIGHT = 1000
_TALLEST = 4000
_PATIENCE = 60


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.screenshots", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the pictures")
    parser.add_argument("--only", nargs="*", choices=list(VIEWS), help="these views only")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with _server(arguments.directory) as address:
        _take(address, arguments.out, arguments.only or list(VIEWS))


def _take(address: str, out: Path, names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

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
                for name in names:
                    start = time.perf_counter()
                    page.goto(f"{address}/{VIEWS[name]}")
                    page.get_by_role("heading", level=1).wait_for()
                    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
                    page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
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


@contextlib.contextmanager
def _server(directory: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "dashboard", str(directory), "--port", str(port), "--headless"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(urllib.error.URLError):
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).close()
                break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


if __name__ == "__main__":
    main()
