"""One server and one browser for all tests of the pages, and how a test reads a page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prmcal.dashboard.serving.temporary import serving
from prmcal.dashboard.text.plain import estimate
from tests.db import factory

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

SECONDS = 60
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A dashboard of its own for a folder; gives its address."""
    pytest.importorskip("streamlit", reason="the extra 'dashboard' is not installed")
    with serving(directory) as address:
        yield address


# Until the last test of this folder, not of the session: tests of other folders run event loops of their own.
@pytest.fixture(scope="package")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run, described in tests/db/factory.py. Not to be written to."""
    directory = tmp_path_factory.mktemp("run")
    factory.build(directory)
    return directory


@pytest.fixture(scope="package")
def address(run_folder: Path) -> Iterator[str]:
    """Where the dashboard shows that run."""
    with server(run_folder) as address:
        yield address


@pytest.fixture(scope="package")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder that tests change, and where a dashboard shows it."""
    directory = tmp_path_factory.mktemp("living")
    with server(directory) as address:
        yield directory, address


@pytest.fixture
def live(living: tuple[Path, str]) -> tuple[Path, str]:
    """The same, with nothing in the folder."""
    directory, _ = living
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return living


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the package 'playwright' is not installed"
    )
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("no chromium is installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all pages, which so fetch and compile what they share once."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(1000 * SECONDS)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails the test if anything goes wrong in it, or if it asks another machine for anything."""
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: problems.append(request.url) if _is_foreign(request.url) else None)

    def note(message: ConsoleMessage) -> None:
        # Streamlit looks for its server below the page's own address first, and is told that it is not there.
        below = re.search(r"//127\.0\.0\.1:\d+/\w+/_stcore/", message.location.get("url", ""))
        if message.type == "error" and not below:
            problems.append(message.text)

    page.on("console", note)
    yield page
    page.close()
    assert problems == []


def _is_foreign(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url


def rows(page: Page, place: int = 0) -> list[list[str]]:
    """Cells of a table as text, with the spaces that a reader sees."""
    table = page.get_by_test_id("stTable").nth(place)
    table.locator("td").first.wait_for()
    texts = table.evaluate(
        "t => [...t.querySelectorAll('tr')].map(r => [...r.children].map(c => c.textContent))"
    )
    return [[re.sub(r"\s+", " ", text).strip() for text in row] for row in texts]


def as_shown(*numbers: float) -> str:
    """A value and its interval as tables show them."""
    return estimate(*numbers).replace("\N{NO-BREAK SPACE}", " ")
