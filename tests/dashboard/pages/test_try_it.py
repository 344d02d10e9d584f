"""Page "Try it" in a real browser, with the dashboard and the server that ``prmcal dashboard --live`` starts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from prmcal.dashboard.charts.trajectory import Solving, reward_table
from prmcal.dashboard.controls.address import link
from prmcal.db import catalog
from prmcal.db.run_folder import published_path
from tests.conftest import Prmcal, command, environment
from tests.dashboard.conftest import drawn, rows
from tests.dashboard.test_accessibility import violations
from tests.served_run import CELL, NAN, SECONDS, shared_run

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
from playwright.sync_api import Page, expect

QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    return shared_run(tmp_path_factory)


@contextmanager
def dashboard(folder: Path, port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start ``prmcal dashboard --live``. Yield its address and its process."""
    with subprocess.Popen(
        command("dashboard", folder, "--live", "--cell", CELL, "--headless", "--port", port),
        env=environment(),
        stdout=subprocess.DEVNULL,
    ) as process:
        address, end = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
        try:
            while process.poll() is None and time.monotonic() < end:
                with suppress(OSError):
                    urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).close()
                    break
                time.sleep(0.1)
            yield address, process
        finally:
            process.kill()


def server_of(process: subprocess.Popen[bytes]) -> str:
    """The address of the server that a dashboard asks."""
    arguments = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    return arguments[arguments.index("--") + 1]


def test_a_question_is_answered_step_by_step_until_the_server_is_gone(
    page: Page, folder: Path, port: int
) -> None:
    with dashboard(folder, port) as (address, process):
        page.goto(f"{address}/try-it")
        _, known = catalog.question_page(published_path(folder), CELL, limit=2)
        box, solve = page.get_by_role("textbox", name="Question"), page.get_by_role("button", name="Solve")
        expect(box).to_have_value(known["text"].iloc[0])
        page.get_by_role("button", name="Another question").click()
        expect(box).to_have_value(known["text"].iloc[1])

        solve.click()
        page.get_by_role("heading", name=re.compile(r"^Sample \d+$")).wait_for()
        page.get_by_text("tokens read by the PRM").wait_for()
        heading = page.get_by_role("heading", level=2)
        expect(heading).to_have_text(re.compile("^Answer: |^I don't know$"))
        head, *steps = rows(page)
        assert head == ["Step", "Text", "Calibrated reward", "PRM reward"]
        assert steps[0][:2] == ["0", "Question only"]
        assert re.fullmatch(r"[01]\.\d+ \[[01]\.\d+, [01]\.\d+\]", steps[0][2])
        expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1)
        drawn(page)
        assert violations(page, {}) == []

        page.goto(f"{address}/" + link("try-it", ask=QUESTION, below="0.95", most="1"))
        expect(box).to_have_value(QUESTION)
        solve.click()
        page.get_by_role("heading", name="I don't know").wait_for()
        page.get_by_text("its probability is below 0.95").wait_for()

        page.goto(f"{address}/" + link("try-it", ask=f"{NAN} <b>now</b>"))
        solve.click()
        page.get_by_text("not finite").wait_for()

        served = server_of(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        ends_with_it(served)


def ends_with_it(address: str) -> None:
    """The server ends soon after the dashboard was killed."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{address} still answers")


def test_a_server_that_is_gone_is_told(page: Page, folder: Path, port: int) -> None:
    options = [f"--server.port={port}", "--server.headless=true", "--", "http://127.0.0.1:9", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "prmcal.dashboard", *options], stdout=subprocess.DEVNULL
    ) as it:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                break
            time.sleep(0.1)
        page.goto(f"http://127.0.0.1:{port}/try-it")
        alert = page.get_by_test_id("stAlert")
        expect(alert).to_contain_text("does not answer. Start the dashboard again with --live.")
        it.kill()


def test_a_cell_that_does_not_exist_starts_no_dashboard(folder: Path, prmcal: Prmcal, port: int) -> None:
    done = prmcal("dashboard", folder, "--live", "--cell", "calibration/nobody", "--headless", "--port", port)
    assert done.returncode == 2
    assert "nobody" in done.stderr
    assert done.stderr.endswith("so the dashboard was not started. See the message above.\n")


def step(trajectory: int, t: int, terminal: bool = False) -> dict[str, Any]:
    """An event of the server."""
    known = {"text": f"step {t}", "uncalibrated": 0.5, "quantiles": [0.1, 0.4, 0.8], "point": 0.4}
    return {"event": "step", "trajectory": trajectory, "step": t, "terminal": terminal, **known}


def test_the_trajectory_that_began_last_is_shown() -> None:
    found, shown = Solving(), []
    for trajectory, t in ((0, 0), (0, 1), (0, 2), (1, 1), (0, 3), (2, 1)):
        found.add(step(trajectory, t))
        shown.append(found.current)
    assert shown == [0, 0, 0, 1, 1, 2]
    assert [each["step"] for each in found.along(2)] == [0, 1]


def test_a_prefix_with_its_answer_has_no_calibrated_reward() -> None:
    found = Solving()
    for event in (step(0, 0), step(0, 1), step(0, 2, terminal=True)):
        found.add(event)
    table = reward_table(found.along(0))
    assert list(table["calibrated"].isna()) == [False, False, True]
    assert list(table["band_low"].dropna()) == [0.1, 0.1]
