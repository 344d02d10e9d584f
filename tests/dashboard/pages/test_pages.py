"""All pages in a real browser, with the real server and a database that the real writer wrote."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from prmcal.dashboard.controls.widgets import ask, link
from prmcal.dashboard.views import leaderboard
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import published_path
from prmcal.errors import MissingDatabaseError
from tests.dashboard.conftest import SECONDS, as_shown, grid, rows
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")


def test_the_first_pages_show_what_the_server_has_read_before(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = published_path(copied_run)
    leaderboard.read_ahead(path)
    for query in (catalog.overview, catalog.leaderboard):

        @wraps(query)
        def read_again(*_: Any, **__: Any) -> None:
            raise AssertionError

        monkeypatch.setattr(catalog, query.__name__, read_again)
    leaderboard.show_overview(path)
    leaderboard.show_ranking(path, "calibration")


def test_an_error_that_is_shown_again_and_again_does_not_grow(tmp_path: Path) -> None:
    lengths = set()
    for _ in range(3):
        with pytest.raises(MissingDatabaseError) as caught:
            ask(catalog.cells, published_path(tmp_path))
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


def test_a_cell_shows_the_numbers_of_the_cell(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/calibration?cell={quote(CELL, safe='')}")
    page.get_by_text("Reliability diagram").wait_for()
    numbers = rows(page)
    stored = catalog.measurements(published_path(run_folder))
    stored = stored[stored["cell_id"] == CELL]
    assert [row[1] for row in numbers[1:]] == [
        as_shown(*row) for row in stored[["value", "low", "high"]].values
    ]
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(3, timeout=1000 * SECONDS)


def test_a_phone_shows_the_answer_first_and_selectors_on_a_click(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("calibration", llm="weak"))
    page.get_by_text("Cell calibration/weak/qwen/isotonic/nano-math").wait_for()
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_visible()
    expect(page.get_by_text("Choose: Data set")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_hidden()
    page.get_by_text("Choose: Data set").click()
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_visible()


def test_calibrators_of_one_group_are_compared(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/" + link("calibration", view="Calibrators", llm="strong", metric="ece"))
    _, *shown = rows(page)
    stored = catalog.leaderboard(published_path(run_folder), llm=["strong"], dataset=["nano-math"])
    stored = stored.sort_values("ece")  # the best first
    numbers = stored[["ece", "ece_low", "ece_high"]].itertuples(index=False)
    assert [row[:2] for row in shown] == [
        [name, as_shown(*each)] for name, each in zip(stored["calibrator"], numbers, strict=True)
    ]
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)


def test_a_failed_cell_has_a_page_with_its_reason(page: Page, address: str) -> None:
    page.goto(f"{address}/calibration?cell={quote(factory.FAILED_CELL, safe='')}")
    expect(page.get_by_test_id("stAlert")).to_have_text(f"This cell failed: {factory.REASON}")


def test_runs_and_jobs_show_what_the_database_holds(page: Page, address: str, run_folder: Path) -> None:
    stored = catalog.jobs(published_path(run_folder))
    page.goto(f"{address}/runs")
    page.get_by_text(f"{len(stored)} jobs.").wait_for()
    assert rows(page, 1)[1:] == [["1", factory.FAILED_CELL, factory.REASON]]
    head, run = rows(page, 2)
    named = dict(zip(head, run, strict=True))
    assert (named["Run"], named["Grid"]) == ("run-1", "tiny")
    assert named["Started (UTC)"] == "2026-01-02 03:04"
    head, *jobs = grid(page, None, -1)  # those that fit into the table
    keys = [dict(zip(head, job, strict=True)) for job in jobs]
    assert len(keys) > 4
    assert [key["Job key"] for key in keys] == list(stored["job_key"])[: len(keys)]
