"""A server of the dashboard in the background, and screenshots of all pages, light and dark, wide and narrow.

``python -m tools.screenshots DIR OUT`` starts a server for the output folder DIR of a run and writes
PNG files to the folder OUT. It needs Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prmcal.dashboard.controls.widgets import link

VIEWS = {
    "overview": link("overview"),
    "leaderboard": link("leaderboard"),
    "leaderboard-cells": link("leaderboard", view="All cells"),
    "calibration": link("calibration"),
    "scaling": link("scaling"),
    "scaling-equal-cost": link("scaling", view="Equal cost"),
    "league": link("league"),
    "compare": link("compare"),
    "compare-scaling": link("compare", leaderboard="scaling"),
    "trajectories": link("trajectories"),
    "runs": link("runs"),
}
"""The addresses of the views by the names of their screenshots."""

_WIDTHS = {"wide": 1280, "narrow": 390}
_HEIGHT, _MAXIMUM_HEIGHT = 1000, 4000
_TIMEOUT = 120_000  # milliseconds
_DRAWN = "() => !document.querySelector('[data-testid=stMain] [data-testid=stSkeleton]')"
_SECONDS_TO_START = 240


@contextmanager
def background_server(directory: Path, *options: str) -> Iterator[str]:
    """Serve the dashboard of an output folder in a separate process, on a free port, with options of its command.

    Yields
    ------
    str
        The address of the server.

    Raises
    ------
    RuntimeError
        If the server ends or does not answer within four minutes.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-P", "-m", "prmcal", "dashboard", str(directory)]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--headless", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, f"{address}/_stcore/health")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=_SECONDS_TO_START)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"The dashboard server ended with exit status {process.returncode}.")
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"The dashboard server did not answer within {_SECONDS_TO_START} seconds.")


def main() -> None:
    """Read the command line and take the screenshots."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description="Take screenshots of all pages.")
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the screenshots")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with background_server(arguments.directory) as address:
        _take(address, arguments.out)


def _take(address: str, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in ("light", "dark"):
            for size, width in _WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)
                page.set_default_timeout(_TIMEOUT)
                for name, view in VIEWS.items():
                    start = time.perf_counter()
                    _open(page, f"{address}/{view}")
                    seconds = time.perf_counter() - start
                    _screenshot(page, width, out / f"{name}-{scheme}-{size}.png")
                    print(f"{name}-{scheme}-{size}: drawn after {seconds:.2f} s")
                page.close()
        browser.close()


def _open(page: Any, address: str) -> None:
    from playwright.sync_api import TimeoutError

    page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    with suppress(TimeoutError):  # the content of a closed expander may never be drawn
        page.wait_for_function(_DRAWN, timeout=30_000)


def _screenshot(page: Any, width: int, path: Path) -> None:
    page.wait_for_timeout(600)  # until the charts are drawn
    # The page scrolls within its window, so the window is made as high as the page.
    height = min(_MAXIMUM_HEIGHT, page.get_by_test_id("stMain").evaluate("element => element.scrollHeight"))
    page.set_viewport_size({"width": width, "height": max(_HEIGHT, height)})
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    page.set_viewport_size({"width": width, "height": _HEIGHT})


if __name__ == "__main__":
    main()
