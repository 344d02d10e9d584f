"""The leaderboards as boards, and page Leaderboard: its numbers, and what a reader does with it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from prmcal.dashboard.controls.widgets import link
from prmcal.db import catalog
from prmcal.db.html.boards import cells_html
from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import published_path
from prmcal.db.text.board import web_board
from prmcal.db.text.formats import SYMBOLS
from tests.dashboard.conftest import HOSTILE, IDLE, as_shown, choose, drawn
from tests.db import factory
from tests.measured import DESCRIBED

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect


def leaderboard(address: str, **state: str) -> str:
    """The address of page Leaderboard in a state."""
    return f"{address}/" + link("leaderboard", **state)


@pytest.mark.parametrize(("table", "metric"), [("calibration", "brier_corrected"), ("scaling", "accuracy")])
def test_a_board_has_the_numbers_of_the_database(run_folder: Path, table: Leaderboard, metric: str) -> None:
    stored = catalog.leaderboard(published_path(run_folder), table)
    board = web_board(stored, table, DESCRIBED)
    columns = {column.key: column for column in board.columns}
    assert board.cells == tuple(stored["cell_id"])
    assert ("PRM: qwen. Values with" in board.legend) == (table == "calibration") == ("prm" not in columns)
    for place, cell in enumerate(stored.to_dict("records")):
        if cell["status"] == "failed":
            assert columns["status"].values[place] == f"failed: {factory.REASON}"
            assert columns[metric].values[place] == "" and math.isnan(columns[metric].numbers[place])
            continue
        shown = as_shown(*(cell[f"{metric}{end}"] for end in ("", "_low", "_high"))).replace("\N{MINUS SIGN}", "-")
        standing = cell[f"{metric}_standing"]
        mark = f" {SYMBOLS[standing]}" if isinstance(standing, str) else ""
        assert columns[metric].values[place].strip() == shown + mark
        assert columns[metric].numbers[place] == cell[metric]


def test_hostile_names_are_text_in_a_table(run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder))
    stored.loc[0, "calibrator"] = HOSTILE
    text = cells_html(web_board(stored, "calibration", DESCRIBED), row=lambda cell: f"#{cell}'\"<")
    assert "<script" not in text and "<img" not in text
    assert "&lt;script&gt;" in text and "&#39;&#34;&lt;" in text


def test_a_reader_filters_and_chooses_columns_and_the_address_keeps_them(page: Page, address: str) -> None:
    page.goto(leaderboard(address, view="All cells", llms="weak", columns="ece"))
    page.get_by_text("6 of 12 cells").wait_for()
    page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
    drawn(page)
    choose(page, "Columns", "Signed error")
    expect(page).to_have_url(re.compile("llms=weak.*columns=ece&columns=signed_error"))
    expect(page.locator("th", has_text="Signed error")).to_be_visible()  # the open list hides other roles


def test_all_cells_are_sorted_and_searched_by_the_address(page: Page, address: str, run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder)).dropna(subset=["brier_corrected"])
    every = catalog.leaderboard(published_path(run_folder))["cell_id"]
    wanted = list(stored.sort_values("brier_corrected", kind="stable")["cell_id"])
    page.goto(leaderboard(address, view="All cells"))
    page.get_by_role("link", name=DESCRIBED.title("brier_corrected")).click()
    expect(page).to_have_url(re.compile("sort=brier_corrected"))
    lines = page.locator("tr[data-cell]")
    expect(lines.first).to_have_attribute("data-cell", wanted[0])
    row = stored.set_index("cell_id").loc[wanted[0]]
    shown = as_shown(*(row[f"brier_corrected{end}"] for end in ("", "_low", "_high")))
    assert shown in lines.first.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    page.locator("a[href*='sort=-brier_corrected']").click()
    expect(page).to_have_url(re.compile("sort=-brier_corrected"))
    expect(lines.first).to_have_attribute("data-cell", wanted[-1])
    page.get_by_role("textbox", name="Search").fill("isotonic")
    page.keyboard.press("Enter")
    expect(lines).to_have_count(sum("isotonic" in cell for cell in every))
    page.go_back()
    expect(lines).to_have_count(len(every))
    page.locator(IDLE).wait_for()  # Streamlit ignores a step back from a page that still runs.
    page.go_back()
    expect(page).to_have_url(re.compile("sort=brier_corrected"))
    expect(lines.first).to_have_attribute("data-cell", wanted[0])


def test_all_cells_fit_a_phone_are_downloaded_and_chosen_cells_lead_to_their_pages(
    page: Page, address: str, run_folder: Path
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(leaderboard(address, view="All cells"))
    head = page.get_by_role("columnheader", name=DESCRIBED.title("brier_corrected"))
    head.wait_for()
    box = head.bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390  # No swipe is needed for the first metric.
    page.set_viewport_size({"width": 1280, "height": 1000})
    drawn(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    everything = catalog.leaderboard(published_path(run_folder))
    assert Path(download.value.path()).read_text() == everything.to_csv(index=False)
    stored = catalog.leaderboard(published_path(run_folder), llm=["weak"], dataset=["nano-math"])
    first, second = stored["number"].iloc[:2]
    page.get_by_role("link", name=f"#{first}", exact=True).click()
    page.get_by_role("link", name=f"Calibration of #{first}").wait_for()
    expect(page.locator("tr[aria-current]")).to_have_count(1)
    page.locator(f"tr[data-cell='{stored['cell_id'].iloc[1]}'] a").click()
    compare = page.get_by_role("link", name=f"Compare #{first} with #{second}")
    compare.wait_for()
    assert re.search(r"compare\?.*a=calibration.*&b=calibration", compare.get_attribute("href") or "")


def test_the_ranking_is_sorted_searched_and_chosen_by_the_address(page: Page, address: str, run_folder: Path) -> None:
    page.goto(leaderboard(address))
    names = page.locator("tbody th")
    expect(names).to_have_text(["uncalibrated", "isotonic", "temperature"])
    page.get_by_text("calibrators may be the best").or_(page.get_by_text("is the best.")).first.wait_for()
    page.get_by_role("link", name="Calibrator", exact=True).click()
    expect(page).to_have_url(re.compile("sort=name"))
    page.locator("a[href*='sort=-name']").click()
    expect(page).to_have_url(re.compile("sort=-name"))
    expect(names).to_have_text(["uncalibrated", "temperature", "isotonic"])
    page.get_by_role("link", name="isotonic", exact=True).click()
    page.get_by_text(re.compile("isotonic: paired tests: ")).wait_for()
    expect(page.locator("tr[aria-current]")).to_have_count(1)
    page.go_back()
    expect(page.locator("tr[aria-current]")).to_have_count(0)
    drawn(page)
    page.get_by_text("LLMs", exact=True).click()
    expect(page).to_have_url(re.compile("rows=LLMs"))
    expect(names).to_have_count(2)
    page.get_by_text("Calibrators", exact=True).click()
    expect(names).to_have_count(3)
    cell = catalog.leaderboard(published_path(run_folder), llm=["weak"], calibrator=["isotonic"])
    value = f"{cell.loc[cell['dataset'] == 'nano-math', 'brier_corrected'].item():.3f}"
    page.get_by_role("link", name=value, exact=True).first.click()
    expect(page).to_have_url(re.compile("/calibration.*calibrator=isotonic"))
    page.get_by_text("Cell calibration/weak/qwen/isotonic/nano-math").wait_for()
