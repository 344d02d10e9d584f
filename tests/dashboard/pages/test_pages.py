"""All pages in a real browser, with the real server and a database that the real writer wrote."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

import pytest

from prmcal.dashboard.controls.address import link
from prmcal.dashboard.formats import MISSING
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.queries.leaderboard import reported
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Cell
from prmcal.db.writer import Writer
from tests.dashboard.conftest import IDLE, SECONDS, as_shown, rows, run_in_progress
from tests.db import factory, parquet_files

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, TimeoutError, expect

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")
CLICKS = 12


def test_there_is_no_page_try_it_without_a_server(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="Runs").wait_for()
    expect(page.get_by_role("link", name="Try it")).to_have_count(0)


def test_costs_are_shown_in_total(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/leaderboard?table=Costs&llms=weak&datasets=nano-math&costs=in+total")
    head, *shown = rows(page)
    stored = catalog.costs(published_path(run_folder))
    stored = stored[(stored["llm"] == "weak") & (stored["dataset"] == "nano-math")]
    place = head.index("Samples")
    assert [row[place] for row in shown] == [f"{value:,.0f}" for value in stored["samples_total"]]


def test_reported_numbers_are_shown_beside_measured_ones_and_are_not_ranked(page: Page, address: str) -> None:
    page.goto(f"{address}/leaderboard?table=Paper&paper=bon_qwen")
    head, *shown = rows(page)
    paper = reported(table="bon_qwen")
    assert [row[head.index("Reported")] for row in shown] == [
        f"{value:.{digits}f}" for value, digits in zip(paper["value"], paper["digits"], strict=True)
    ]
    assert {row[head.index("Measured here")] for row in shown} == {MISSING}
    assert not any(mark in text for row in shown for text in row for mark in "●○▽▼")
    page.get_by_text("were not measured here").wait_for()


def test_a_cell_shows_the_numbers_and_bins_of_the_cell(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/calibration?cell={quote(CELL, safe='')}")
    page.get_by_text("Reliability diagram").wait_for()
    page.get_by_text("Bins", exact=True).click()
    published = published_path(run_folder)
    bins, numbers = rows(page, 0), rows(page, 1)
    stored = catalog.measurements(published)
    stored = stored[stored["cell_id"] == CELL]
    assert [row[1] for row in numbers[1:]] == [
        as_shown(*row) for row in stored[["value", "low", "high"]].values
    ]
    expected = catalog.reliability(published, CELL).to_dict("records")
    assert [row[1] for row in bins[1:]] == [f"{each['count']:,}" for each in expected]
    assert bins[1][3] == as_shown(*(expected[0][name] for name in ("mean_success", "low", "high")))
    assert bins[5][2:] == [MISSING, MISSING]
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(3, timeout=1000 * SECONDS)


def test_calibrators_of_one_group_are_compared(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/" + link("calibration", view="Calibrators", llm="strong", metric="ece"))
    _, *shown = rows(page)
    stored = catalog.leaderboard(published_path(run_folder), llm=["strong"], dataset=["nano-math"])
    numbers = stored[["ece", "ece_low", "ece_high"]].itertuples(index=False)
    assert [row[:2] for row in shown] == [
        [name, as_shown(*each)] for name, each in zip(stored["calibrator"], numbers, strict=True)
    ]
    page.get_by_text("No coverage was measured.").wait_for()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)


def test_every_llm_and_data_set_has_its_diagram(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("calibration", view="All LLMs and data sets", calibrator="isotonic"))
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(6)
    page.get_by_text("strong: failed").wait_for()


def test_text_of_a_model_is_shown_as_text(page: Page, address: str) -> None:
    page.goto(f"{address}/calibration?cell={quote(CELL, safe='')}")
    page.get_by_text("3 sample trajectories").click()
    expect(page.get_by_test_id("stCode").first).to_have_text(parquet_files.SCRIPT)
    expect(page.locator("main script, [data-testid=stMain] script")).to_have_count(0)


def test_a_failed_cell_has_a_page_with_its_reason(page: Page, address: str) -> None:
    page.goto(f"{address}/calibration?cell={quote(factory.FAILED_CELL, safe='')}")
    expect(page.get_by_test_id("stAlert")).to_have_text(f"This cell failed: {factory.REASON}")


def test_every_page_follows_a_run_from_nothing_to_damage(
    page: Page, run_folder: Path, live: tuple[Path, str]
) -> None:
    directory, address = live
    page.goto(address)
    everywhere(page, "There are no results in")
    with run_in_progress(directory):
        Writer(database_path(directory)).publish()
        page.get_by_text("Provisional, the run is in progress").wait_for()
        everywhere(page, "has started but has not measured anything yet", runs="This database has no runs")
        shutil.copy(database_path(run_folder), database_path(directory))
        writer = Writer(database_path(directory))
        writer.publish()
        page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
        here = {"leaderboard": "calibration", "dataset": "nano-math", "llm": "new", "status": "pending"}
        writer.record([Cell(cell_id="calibration/new", **here)])
        writer.publish()
        page.get_by_text("11 of 13 cells done · 1 failed · 1 pending").wait_for()
    expect(page.get_by_text("Provisional")).to_have_count(0)
    for version, message in ((99, "was written by a newer version"), (1, "was written by an older version")):
        with engine_for(writer.path).begin() as connection:
            connection.exec_driver_sql(f"UPDATE schema_version SET version = {version}")
        writer.publish()
        everywhere(page, f"{message} of prmcal")
    damaged = directory / "damaged"
    damaged.write_bytes(b"not a database" * 500)
    damaged.replace(writer.published)
    everywhere(page, "leaderboard.duckdb is damaged")


def test_every_page_is_shown_while_a_run_is_writing(
    page: Page, run_folder: Path, live: tuple[Path, str]
) -> None:
    directory, address = live
    shutil.copy(database_path(run_folder), database_path(directory))
    writer = Writer(database_path(directory))
    writer.publish()
    stop, written = Event(), 0

    def write() -> None:
        nonlocal written
        while not stop.wait(0.5):
            written += 1
            where = {"llm": "new", "prm": "qwen", "calibrator": "isotonic", "dataset": "nano-math"}
            cell = Cell(
                cell_id=f"calibration/{written}", leaderboard="calibration", status="pending", **where
            )
            writer.record([cell])
            writer.publish()

    with run_in_progress(directory):
        page.goto(f"{address}/leaderboard")
        page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
        run = Thread(target=write)
        run.start()
        try:
            while written < 7:
                everywhere(page, writing=True)
        finally:
            stop.set()
            run.join()
    page.get_by_text(f"11 of {12 + written} cells done · 1 failed · {written} pending").wait_for()


def everywhere(page: Page, message: str = "", runs: str = "", writing: bool = False) -> None:
    """Open every page, the leaderboard last. Wait for a message on each, or for its title.

    While a run is `writing`, a slow machine is still drawing a page when it has to be drawn again.
    """
    for title in ("Calibration", "Overview", "Scaling", "Compare", "Trajectories", "Runs", "Leaderboard"):
        open_page(page, title)
        if not writing:
            page.locator(IDLE).wait_for()
        if message:
            page.get_by_text(runs if runs and title == "Runs" else message).wait_for()
        else:
            page.get_by_role("heading", name=title, exact=True).wait_for()
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
    raise AssertionError(f"{CLICKS} clicks did not open page {title}.")
