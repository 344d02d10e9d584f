"""Pages of a folder that changes while a reader looks at it: a run in progress, damage, and progress in numbers."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from prmcal.dashboard.controls.widgets import REFRESH_SECONDS, link
from prmcal.db import catalog
from prmcal.db.queries.runs import planned_shards
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Cell, JobRow, RunRow
from prmcal.db.writer import Writer
from tests.dashboard.conftest import GRID, IDLE, SECONDS, rows, run_in_progress
from tests.stored import publish, record

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, TimeoutError, expect

CLICKS = 24


def test_every_page_follows_a_run_from_nothing_to_damage(page: Page, run_folder: Path, live: tuple[Path, str]) -> None:
    directory, address = live
    page.goto(address)
    page.get_by_text("There are no results in").wait_for()
    with run_in_progress(directory):
        publish(Writer(database_path(directory)))
        page.get_by_text("Provisional, the run is in progress").wait_for()
        everywhere(page, "has started but has not measured anything yet", runs="This database has no runs")
        shutil.copy(database_path(run_folder), database_path(directory))
        writer = Writer(database_path(directory))
        publish(writer)
        page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
        here = {"leaderboard": "calibration", "dataset": "nano-math", "llm": "new", "status": "pending"}
        record(writer, [Cell(cell_id="calibration/new", **here)])
        publish(writer)
        page.get_by_text("11 of 13 cells done · 1 failed · 1 pending").wait_for()
    expect(page.get_by_text("Provisional")).to_have_count(0)
    for version, message, title in (
        (99, "was written by a newer version", "Overview"),
        (1, "was written by an older version", "Runs"),
    ):
        with engine_for(writer.path).begin() as connection:
            connection.exec_driver_sql(f"UPDATE schema_version SET version = {version}")
        publish(writer)
        open_page(page, title)
        page.get_by_text(f"{message} of prmcal").wait_for()
    damaged = directory / "damaged"
    damaged.write_bytes(b"not a database" * 500)
    damaged.replace(writer.published)
    for title in ("Scaling", "Leaderboard"):
        open_page(page, title)
        page.get_by_text("leaderboard.duckdb is damaged").wait_for()


def everywhere(page: Page, message: str, runs: str = "") -> None:
    """Open every page, the leaderboard last. Wait for a message on each."""
    for title in ("Calibration", "Overview", "Scaling", "Compare", "Trajectories", "Runs", "Leaderboard"):
        open_page(page, title)
        page.locator(IDLE).wait_for()
        page.get_by_text(runs if runs and title == "Runs" else message).wait_for()
        assert page.get_by_test_id("stException").count() == 0


def open_page(page: Page, title: str) -> None:
    """Click the link of a page until the page opens.

    While a run publishes, an open page is drawn again every two seconds. If Streamlit gets the request to draw it again
    after a click on another page and before it has handled the click, it forgets the click.
    """
    address = f"**/{title.lower()}"
    for _ in range(CLICKS):
        page.get_by_test_id("stSidebar").get_by_role("link", name=title).click()
        with suppress(TimeoutError):
            page.wait_for_url(address, timeout=1000 * SECONDS / CLICKS)
            return
    raise AssertionError(f"{CLICKS} clicks did not open page {title} from {page.url}.")


def test_a_run_without_results_says_what_comes_first_and_when(
    page: Page, run_folder: Path, live: tuple[Path, str]
) -> None:
    directory, address = live
    shutil.copy(database_path(run_folder), database_path(directory))
    writer = Writer(database_path(directory))
    with engine_for(writer.path).begin() as connection:
        connection.exec_driver_sql("UPDATE cells SET status = 'pending'")
        shards = '{"shards": [{"key": "a"}, {"key": "b"}]}'
        connection.exec_driver_sql("UPDATE jobs SET parameters = $shards", {"shards": shards})
    (directory / "artifacts" / "fit" / "a").mkdir(parents=True)
    (directory / "workers").mkdir()
    (directory / "workers" / "1.txt").touch()
    with run_in_progress(directory):
        publish(writer)
        for name in ("overview", "scaling", "calibration"):
            page.goto(f"{address}/{name}")
            page.get_by_text(re.compile("^Nothing has been measured yet. First results in .* jobs:")).wait_for()
        assert ["calibrators fitted", "1 of 2"] in rows(page)
    page.get_by_text("Run the same command again").wait_for()


def test_progress_is_updated(page: Page, run_folder: Path, live: tuple[Path, str]) -> None:
    directory, address = live
    shutil.copy(database_path(run_folder), database_path(directory))
    writer = Writer(database_path(directory))
    stored = catalog.runs(published_path(run_folder)).iloc[0].to_dict()
    shards = [{"key": f"shard-{place}", "seed": place} for place in range(3)]
    pending = JobRow(job_key="new", kind="rollout", parameters={"shards": shards}, status="pending", shards=len(shards))
    record(writer, [RunRow(**{**stored, "grid": GRID, "finished_at": None}), pending])
    publish(writer)
    planned = planned_shards(published_path(directory))["shard_keys"].map(len).sum()
    artifacts = directory / "artifacts" / "rollout"
    (artifacts / "shard-0").mkdir(parents=True)
    (artifacts / ".shard-1-half").mkdir()
    sent: list[object] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    with run_in_progress(directory):
        page.goto(f"{address}/" + link("runs"))
        page.get_by_text(re.compile(rf"^Provisional.* 1 of {planned} shards")).wait_for()
        (artifacts / "shard-2").mkdir()
        page.get_by_text(re.compile(rf"^Provisional.* 2 of {planned} shards")).wait_for()
    page.get_by_text(re.compile(rf"^Not running.* 2 of {planned} shards")).wait_for()
    expect(page.get_by_text("Provisional")).to_have_count(0)
    for _ in range(5):  # A question may still be on its way.
        page.locator(IDLE).wait_for()
        before = len(sent)
        page.wait_for_timeout(2500 * REFRESH_SECONDS)
        if len(sent) == before:
            break
    assert len(sent) == before, "the page asks again although the run has ended"
