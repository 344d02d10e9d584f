"""The leaderboards as boards, and page Leaderboard: its numbers, and what a reader does with it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from prmcal.dashboard.controls.widgets import frame_of, link
from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import published_path
from prmcal.db.text.board import narrow_board, web_board
from prmcal.db.text.formats import SYMBOLS
from prmcal.harness.site.boards import board_json
from tests.dashboard.conftest import HOSTILE, as_shown, choose, drawn, grid
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
        shown = as_shown(*(cell[f"{metric}{end}"] for end in ("", "_low", "_high"))).replace(
            "\N{MINUS SIGN}", "-"
        )
        standing, letters = cell[f"{metric}_standing"], cell[f"{metric}_letters"]
        marks = f" {SYMBOLS[standing]} {letters}" if isinstance(letters, str) else ""
        assert columns[metric].values[place].strip() == shown + marks
        assert columns[metric].numbers[place] == cell[metric]


def test_the_page_sorts_by_numbers_and_shows_intervals_beside_them(run_folder: Path) -> None:
    board = web_board(catalog.leaderboard(published_path(run_folder)), "calibration", DESCRIBED)
    frame, config = frame_of(board)
    title = DESCRIBED.title("brier_corrected")
    assert pd.api.types.is_float_dtype(frame[title])
    assert frame[f"{title}, 95%"].iloc[0].startswith("[")
    assert DESCRIBED["brier_corrected"].description in config[title]["help"]


def test_hostile_names_are_text_in_a_table_of_a_site(run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder))
    stored.loc[0, "calibrator"] = HOSTILE
    text = board_json(web_board(stored, "calibration", DESCRIBED), lambda cell: f"#{cell}'\"<")
    assert "<" not in text
    options = json.loads(text)["options"]
    assert "<script" not in options["data_json"] and "<img" not in options["data_json"]
    assert "&lt;script&gt;" in options["data_json"]
    assert 'href=\\"#calibration' in options["data_json"] and "&#x27;&quot;&lt;" in options["data_json"]


def test_a_reader_filters_and_chooses_columns_and_the_address_keeps_them(page: Page, address: str) -> None:
    page.goto(leaderboard(address, llms="weak", columns="ece"))
    drawn(page)
    shown = page.get_by_test_id("stDataFrame").filter(visible=True)
    expect(shown).to_have_count(2)  # references have a table of their own
    page.get_by_text("6 of 12 rows").wait_for()
    page.get_by_text("11 of 12 cells done · 1 failed").wait_for()
    drawn(page)
    choose(page, "Columns", "Signed error")
    expect(page).to_have_url(re.compile("llms=weak.*columns=ece&columns=signed_error"))


def test_the_first_columns_on_a_phone_are_who_where_and_a_metric(run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder), "scaling")
    board = narrow_board(web_board(stored, "scaling", DESCRIBED))
    assert board.head[:2] == ["Who and where", DESCRIBED.title("accuracy")] and board.names == 1
    assert board.head[-3:] == ["#", "C", "β"]
    row = stored[stored["calibrator"].notna() & stored["strategy"].notna()].iloc[0]
    who = f"{row['strategy']}, {row['calibrator']} · {row['dataset']}, {row['llm']}"
    assert board.columns[0].values[row.name].startswith(who)


def test_a_phone_needs_no_swipe_for_the_first_metric(page: Page, address: str, run_folder: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(leaderboard(address))
    drawn(page)
    table = page.get_by_test_id("stDataFrame").filter(visible=True).first
    title = DESCRIBED.title("brier_corrected")
    assert [each for each in grid(page)[0] if each][:3] == ["Who and where", title, f"{title}, 95%"]
    table.click(position={"x": 16, "y": 75})
    page.get_by_role("link", name="Compare it with another cell").wait_for()


def test_selected_rows_lead_to_their_pages(page: Page, address: str, run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder), llm=["weak"], dataset=["nano-math"])
    ranked = stored[stored["calibrator"] != "uncalibrated"].sort_values("brier_corrected")
    first, second = ranked["cell_id"][:2]  # the best of the first place, without the reference
    page.goto(leaderboard(address))
    drawn(page)
    table = page.get_by_test_id("stDataFrame").first
    table.click(position={"x": 16, "y": 52})
    page.get_by_role("link", name=f"Calibration of {first}").wait_for()
    table.click(position={"x": 16, "y": 87})
    page.get_by_role("link", name=f"Compare {first} with {second}").wait_for()
    found = page.get_by_role("link", name="Compare calibration").get_attribute("href")
    assert found is not None and re.search(r"compare\?a=calibration.*&b=calibration", found)


def test_downloads_have_the_numbers_of_the_database(page: Page, address: str, run_folder: Path) -> None:
    page.goto(leaderboard(address))
    drawn(page)
    stored = catalog.leaderboard(published_path(run_folder))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert Path(download.value.path()).read_text() == stored.to_csv(index=False)
