"""All pages in a real browser, with the real server and a database that the real writer wrote."""

from __future__ import annotations

import re
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from prmcal.dashboard.controls.widgets import ask, link
from prmcal.dashboard.views import leaderboard, overview
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import published_path
from prmcal.errors import MissingDatabaseError
from tests.dashboard.conftest import SECONDS, as_shown, grid, rows, unfold
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")


def test_the_first_pages_show_what_the_server_has_read_before(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = published_path(copied_run)
    leaderboard.read_overview(path)
    leaderboard.read_leaderboards(path)
    for query in (catalog.overview, catalog.leaderboard):

        @wraps(query)
        def read_again(*_: Any, **__: Any) -> None:
            raise AssertionError

        monkeypatch.setattr(catalog, query.__name__, read_again)
    overview.show(path)
    leaderboard.show(path)


def test_an_error_that_is_shown_again_and_again_does_not_grow(tmp_path: Path) -> None:
    lengths = set()
    for _ in range(3):
        with pytest.raises(MissingDatabaseError) as caught:
            ask(catalog.cells, published_path(tmp_path))
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


def test_a_cell_shows_its_numbers_beside_those_before_calibration(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/calibration?cell={quote(CELL, safe='')}")
    unfold(page, "All metrics")
    _, *shown = rows(page)
    stored = catalog.measurements(published_path(run_folder))
    for column, name in ((1, "uncalibrated"), (2, "isotonic")):
        own = stored[stored["cell_id"] == CELL.replace("isotonic", name)]
        assert [row[column] for row in shown] == [as_shown(*row) for row in own[["value", "low", "high"]].values]
    value, low, high = stored[(stored["cell_id"] == CELL) & (stored["metric"] == "signed_error")][
        ["value", "low", "high"]
    ].values[0]
    page.locator(".st-key-answer").get_by_text(as_shown(value, low, high)[:6]).wait_for()
    expect(page.get_by_test_id("stVegaLiteChart").filter(visible=True)).to_have_count(2, timeout=1000 * SECONDS)


def test_a_cell_shows_its_numbers_by_group(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/calibration?cell={quote(CELL, safe='')}")
    unfold(page, "By group")
    _, *shown = rows(page, -1)
    (field, *_) = catalog.grouping_fields(published_path(run_folder))
    stored = catalog.by_group(published_path(run_folder), field, llm=["weak"], calibrator=["isotonic"], prm=["qwen"])
    stored = stored[stored["dataset"] == "nano-math"]
    assert [row[:2] for row in shown] == [[row.group, str(row.questions)] for row in stored.itertuples()]
    assert [row[2] for row in shown] == [as_shown(*row) for row in stored.filter(like="accuracy").values]


def test_calibrators_are_drawn_by_a_metric_and_a_phone_shows_selectors_on_a_click(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("calibration", llm="strong", metric="ece"))
    stored = catalog.leaderboard(published_path(run_folder), llm=["strong"], dataset=["nano-math"])
    stored = stored.set_index("calibrator")["ece"].sort_values()
    best, worst = (f"{value:.3f} \\({name}\\)" for name, value in stored.iloc[[0, -1]].items())
    chart = page.get_by_test_id("stVegaLiteChart").nth(1)
    expect(chart).to_have_attribute("aria-label", re.compile(f"ECE: from {best} to {worst}"))
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_visible()
    expect(page.get_by_text("Choose: Data set")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_hidden()
    page.get_by_text("Choose: Data set").click()
    expect(page.get_by_role("combobox", name="Calibrator", exact=True)).to_be_visible()


def test_a_failed_cell_has_a_page_with_its_reason(page: Page, address: str) -> None:
    page.goto(f"{address}/calibration?cell={quote(factory.FAILED_CELL, safe='')}")
    expect(page.get_by_test_id("stAlert")).to_have_text(f"This cell failed: {factory.REASON}")


def test_runs_and_jobs_show_what_the_database_holds(page: Page, address: str, run_folder: Path) -> None:
    stored = catalog.jobs(published_path(run_folder))
    page.goto(f"{address}/runs")
    unfold(page, f"{len(stored)} jobs")
    assert rows(page, 1)[1:] == [["1", factory.FAILED_CELL, factory.REASON]]
    head, run = rows(page, 2)
    named = dict(zip(head, run, strict=True))
    assert (named["Run"], named["Grid"]) == ("run-1", "tiny")
    assert named["Started (UTC)"] == "2026-01-02 03:04"
    head, *jobs = grid(page, None, -1)  # those that fit into the table
    keys = [dict(zip(head, job, strict=True)) for job in jobs]
    assert len(keys) > 4
    assert [key["Job key"] for key in keys] == list(stored["job_key"])[: len(keys)]
