"""The real server in a real headless browser, on a database that the real writer wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from db import queries
from db.cells import cell_id
from db.connection import engine_for
from db.files import database_path, published_path
from db.models import Cell
from db.writer import Writer
from tests.dashboard.conftest import SECONDS, as_shown, rows, server
from tests.db import factory

playwright = pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")


def test_the_leaderboard_shows_the_numbers_of_the_database(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(address)
    head, *shown = rows(page)
    stored = queries.leaderboard(published_path(run_folder))
    assert head == ["Data set", "LLM", "Calibrator", "Brier", "ECE", "Signed error", "Questions", "Prefixes"]
    assert len(shown) == len(stored)
    for row, cell in zip(shown, stored.to_dict("records"), strict=True):
        assert row[:3] == [cell["dataset"], cell["llm"], cell["calibrator"]]
        if cell["status"] == "failed":
            assert row[3:] == ["failed"] * 3 + ["\N{EN DASH}"] * 2
            continue
        marks = {"best": " ●", "tied": " ○", "worse": " ▽"}
        for text, metric in zip(row[3:6], ("brier", "ece", "signed_error"), strict=True):
            expected = as_shown(cell[metric], cell[f"{metric}_low"], cell[f"{metric}_high"])
            mark = marks.get(cell[f"{metric}_standing"], "")
            letters = f" {cell[f'{metric}_letters']}" if mark else ""
            assert text == expected.replace(" [", f"{mark}{letters} [")
        assert row[6:] == ["100", "1,234"]
    assert {mark for row in shown for mark in "●○▽" if mark in row[3]} == set("●○▽")


def test_a_failed_cell_shows_its_reason_as_text(page: playwright.Page, address: str) -> None:
    page.goto(address)
    rows(page)
    assert rows(page, 1) == [["Cell", "Reason"], [factory.FAILED_CELL, factory.REASON]]


def test_the_scaling_table_shows_what_ias_costs_and_keeps(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/?table=Scaling&llm=weak&dataset=nano-math")
    head, *shown = rows(page)
    stored = queries.leaderboard(published_path(run_folder), "scaling", llm=["weak"], dataset=["nano-math"])
    for row, cell in zip(shown, stored.to_dict("records"), strict=True):
        named = dict(zip(head, row, strict=True))
        assert named["Strategy"] == cell["strategy"]
        assert named["Accuracy"] == as_shown(cell["accuracy"], cell["accuracy_low"], cell["accuracy_high"])
    assert shown[-1][2:6] == ["best-of-n + IAS", "0.99", "0.10", "isotonic"]


def test_a_filter_keeps_its_rows_and_stands_in_the_address(page: playwright.Page, address: str) -> None:
    page.goto(address)
    rows(page)
    page.get_by_test_id("stSidebar").get_by_role("combobox", name="LLM").click()
    page.get_by_role("option", name="weak").click()
    page.wait_for_url("**/?llm=weak")
    lines = page.get_by_test_id("stTable").first.locator("tbody tr")
    playwright.expect(lines).to_have_count(6, timeout=1000 * SECONDS)
    assert {row[1] for row in rows(page)[1:]} == {"weak"}


def test_the_download_holds_what_the_database_holds(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/?llm=weak")
    rows(page)
    with page.expect_download() as download:
        page.get_by_text("Download CSV").click()
    stored = queries.leaderboard(published_path(run_folder), llm=["weak"])
    assert Path(download.value.path()).read_text() == stored.to_csv(index=False)


def test_reliability_shows_the_numbers_and_bins_of_the_cell(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/reliability?cell={quote(CELL, safe='')}")
    page.get_by_text("Reward against success").wait_for()
    page.get_by_text("Bins", exact=True).click()
    published = published_path(run_folder)
    bins, numbers = rows(page, 0), rows(page, 1)
    stored = queries.measurements(published)
    stored = stored[stored["cell_id"] == CELL]
    assert [row[1] for row in numbers[1:]] == [
        as_shown(*row) for row in stored[["value", "low", "high"]].values
    ]
    expected = queries.reliability(published, CELL).to_dict("records")
    assert [row[1] for row in bins[1:]] == [f"{each['count']:,}" for each in expected]
    assert bins[1][3] == as_shown(*(expected[0][name] for name in ("mean_success", "low", "high")))
    assert bins[5][2:] == ["\N{EN DASH}", "\N{EN DASH}"]
    assert page.get_by_test_id("stVegaLiteChart").count() == 2


def test_text_of_a_model_is_shown_as_text(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/reliability?cell={quote(CELL, safe='')}")
    page.get_by_text("3 sample trajectories").click()
    code = page.get_by_test_id("stCode").first
    code.wait_for()
    assert code.inner_text().strip() == factory.SCRIPT
    assert page.locator("main script, [data-testid=stMain] script").count() == 0


def test_a_failed_cell_has_a_page_with_its_reason(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/reliability?cell={quote(factory.FAILED_CELL, safe='')}")
    assert page.get_by_test_id("stAlert").inner_text() == f"This cell failed: {factory.REASON}"


def test_the_page_follows_a_run_from_nothing_to_damage(
    page: playwright.Page, run_folder: Path, tmp_path: Path
) -> None:
    with server(tmp_path) as address:
        page.goto(address)
        page.get_by_text("There are no results in").wait_for()
        shutil.copy(database_path(run_folder), database_path(tmp_path))
        writer = Writer(database_path(tmp_path))
        writer.publish()
        page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
        here = {
            "leaderboard": "calibration",
            "llm": "new",
            "prm": "qwen",
            "calibrator": "isotonic",
            "dataset": "nano-math",
            "status": "pending",
        }
        writer.record([Cell(cell_id="calibration/new", **here)])
        writer.publish()
        page.get_by_text("11 of 13 cells done · 1 failed · 1 pending").wait_for()
        with engine_for(writer.path).begin() as connection:
            connection.exec_driver_sql("UPDATE schema_version SET version = 99")
        writer.publish()
        page.get_by_text("was written by a newer version of prmcal").wait_for()
        damaged = tmp_path / "damaged"
        damaged.write_bytes(b"not a database" * 500)
        damaged.replace(writer.published)
        page.get_by_text("leaderboard.duckdb is damaged").wait_for()
        page.goto("about:blank")
