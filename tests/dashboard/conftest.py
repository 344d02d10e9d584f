"""Fixtures for tests of the pages: a server and a browser that all tests share, and functions that read a page."""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from prmcal.dashboard.formats import estimate
from prmcal.db.run_folder import LOCK_FILE
from tests.shared import served_once
from tools.screenshots import background_server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page

SECONDS = 240
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
"""The page after the server has sent all of it."""
DRAWN = """() => {
    const seen = each => each.checkVisibility();  // What is folded is drawn when it is unfolded.
    const charts = [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].filter(seen);
    return charts.every(each => each.querySelector('svg, canvas'))
        && ![...document.querySelectorAll('[data-testid=stMain] [data-testid=stSkeleton]')].some(seen)
        && !document.getAnimations().some(each => each instanceof CSSTransition && each.playState === 'running');
}"""
"""A function of the page: its charts are there, and nothing is about to appear or changes its colour."""
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \N{RIGHT-TO-LEFT OVERRIDE}\N{ARABIC LETTER MEEM} "
    + "long" * 40
)
"""A name that is shown as text and not interpreted."""
GRID = """
name: tiny
seed: 3
llms: [{name: weak, plugin: transformers}, {name: strong, plugin: transformers}]
prms: [{name: qwen, plugin: qwen}]
calibrators: [{name: isotonic, plugin: isotonic}, {name: temperature, plugin: temperature}]
datasets: [{name: nano-math, plugin: nano-math}, {name: nano-aime, plugin: nano-aime}]
calibration: {name: nano-math, plugin: nano-math}
strategies: [{name: pass@1, plugin: pass@1}, {name: best-of-n, plugin: best-of-n}]
"""
"""The grid of the run of tests/db/factory.py, as far as a cell needs it."""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One process draws all pages and compiles their scripts once.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
]


@contextmanager
def run_in_progress(directory: Path) -> Iterator[None]:
    """Hold the lock of a folder, as a run does while it writes."""
    with (directory / LOCK_FILE).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Start a dashboard for a folder; yield its address."""
    pytest.importorskip("streamlit", reason="the extra 'dashboard' is not installed")
    with background_server(directory, "--allowed-hosts", "board.example") as address:
        yield address


@pytest.fixture(scope="session")
def run_folder(small_run: Path) -> Path:
    """The folder of the small run that tests/db/factory.py describes. Tests must not write to it."""
    return small_run


@pytest.fixture(scope="session")
def address(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the dashboard of that run."""
    with served_once(tmp_path_factory, "run", lambda: server(run_folder)) as address:
        yield address


@pytest.fixture(scope="session")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder that tests change, and the address of its dashboard."""
    directory = tmp_path_factory.mktemp("living")
    with server(directory) as address:
        yield directory, address


@pytest.fixture
def live(living: tuple[Path, str]) -> tuple[Path, str]:
    """The same, with an empty folder."""
    directory, _ = living
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return living


# This fixture ends with the last test of this folder, since Playwright runs an event loop that disturbs other tests.
@pytest.fixture(scope="package")
def context() -> Iterator[BrowserContext]:
    """A headless Chromium that all pages share, so that they load and compile scripts only once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no chromium is installed (Debian: apt-get install chromium)")
    playwright.expect.set_options(timeout=1000 * SECONDS)
    with playwright.sync_playwright() as driver, TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        size: Any = {"width": 1280, "height": 1000}
        context: BrowserContext = driver.chromium.launch_persistent_context(
            folder, executable_path=program, args=FLAGS, viewport=size
        )
        context.set_default_timeout(1000 * SECONDS)
        yield context
        context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page. The test fails if the page reports an error or sends a request to another machine."""
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if _is_foreign(request.url) else None)

    def note(message: ConsoleMessage) -> None:
        # Streamlit first looks for its server below the address of the page and gets an error.
        below = re.search(r"//127\.0\.0\.1:\d+/[\w-]+/_stcore/", message.location.get("url", ""))
        if message.type == "error" and not below:
            problems.append(message.text)

    def dismiss(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    page.on("console", note)
    page.on("dialog", dismiss)
    yield page
    page.close()
    assert problems == []


def _is_foreign(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url


def rows(page: Page, place: int = 0) -> list[list[str]]:
    """The cells of a table as text, with spaces as a reader sees them."""
    table = page.get_by_test_id("stTable").nth(place)
    table.locator("td").first.wait_for()
    drawn(page)  # The tables above it may be drawn later.
    texts = table.evaluate("t => [...t.querySelectorAll('tr')].map(r => [...r.children].map(c => c.textContent))")
    return [[re.sub(r"\s+", " ", text).strip() for text in row] for row in texts]


def drawn(page: Page) -> None:
    """Wait until the server has sent all of the page, and the browser has drawn it."""
    page.locator(IDLE).wait_for()
    page.wait_for_function(DRAWN)


def unfold(page: Page, title: str) -> None:
    """Open what is folded. A page that is still drawn may fold it again."""
    drawn(page)
    page.get_by_text(title).click()


def choose(page: Page, select: str, option: str, place: str = "stMain") -> None:
    """Choose an option of a list. An event, unlike a click, reaches it also while the list is still opening."""
    page.get_by_test_id(place).get_by_role("combobox", name=select).click()
    page.get_by_role("option", name=option, exact=True).dispatch_event("click")


def expect_cells(page: Page, cells: Sequence[str], board: str = ".leaderboard") -> None:
    """Wait until the rows of a board are those of some cells, in this order."""
    from playwright.sync_api import expect

    rows = page.locator(f"{board} tbody tr")
    expect(rows).to_have_count(len(cells))
    for place, cell in enumerate(cells):
        expect(rows.nth(place)).to_have_attribute("data-cell", cell)


def grid(page: Page, rows: int | None = None, place: int = 0) -> list[list[str]]:
    """The cells of an interactive table, from its markup for screen readers, once it has some rows below its head."""
    from playwright.sync_api import expect

    table = page.get_by_test_id("stDataFrame").filter(visible=True).nth(place).locator("table[role=grid]")
    table.locator("tbody tr").first.wait_for(state="attached")
    if rows is not None:
        expect(table.locator("tbody tr")).to_have_count(rows)
    texts: list[list[str]] = table.evaluate(
        "t => [...t.querySelectorAll('tr')].map(r => [...r.children].map(c => c.textContent))"
    )
    return texts


def as_shown(value: float, low: float, high: float) -> str:
    """A value and its interval, as tables show them."""
    return estimate(value, low, high).replace("\N{NO-BREAK SPACE}", " ")
