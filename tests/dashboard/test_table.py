"""The table of a leaderboard on page Leaderboard: its numbers, and what a reader does with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prmcal.dashboard.controls.address import link
from prmcal.dashboard.formats import MISSING
from prmcal.db import catalog
from prmcal.db.html.table import leaderboard_table
from prmcal.db.run_folder import published_path
from prmcal.db.text.formats import escape_markdown
from prmcal.db.text.presentation import SYMBOLS
from tests.dashboard.conftest import SECONDS, as_shown, board_rows, expect_cells
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

from tests.measured import DESCRIBED


def leaderboard(address: str, **state: str) -> str:
    """The address of page Leaderboard in a state."""
    return f"{address}/" + link("leaderboard", **state)


def estimate_of(cell: Mapping[str, Any], metric: str, mark: str = "") -> str:
    shown = as_shown(cell[metric], cell[f"{metric}_low"], cell[f"{metric}_high"])
    return shown.replace(" [", f" {mark} [") if mark else shown


def test_the_leaderboard_shows_the_numbers_of_the_database(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(leaderboard(address))
    head, *shown = board_rows(page)
    stored = catalog.leaderboard(published_path(run_folder))
    assert head[:3] == ["Calibrator", "Data set", "LLM"]
    assert [title.removesuffix("?") for title in head[-2:]] == ["Questions", "Prefixes"]
    assert len(shown) == len(stored)
    brier = next(place for place, title in enumerate(head) if title.startswith("Brier, corrected"))
    for row, cell in zip(shown, stored.to_dict("records"), strict=True):
        assert row[0].startswith(f"{cell['calibrator']} #{cell['number']}")
        assert row[1:3] == [cell["dataset"], cell["llm"]]
        if cell["status"] == "failed":
            assert row[3:] == [f"failed: {factory.REASON}"]
            continue
        # In each group, only the uncalibrated cell is significantly worse than the best, so it is the worst.
        standing = cell["brier_corrected_standing"]
        mark = SYMBOLS["last" if standing == "worse" else standing]
        assert row[brier] == estimate_of(cell, "brier_corrected", f"{mark} {cell['brier_corrected_letters']}")
        assert row[-2:] == ["100", "1,234"]
    page.get_by_text("PRM: qwen. Values with 95% intervals").wait_for()
    page.get_by_text("11 of 12 cells done · 1 failed").wait_for()


def test_the_scaling_table_shows_the_numbers_of_the_database(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(leaderboard(address, table="Scaling", llms="weak", datasets="nano-math"))
    head, *shown = board_rows(page)
    stored = catalog.leaderboard(published_path(run_folder), "scaling", llm=["weak"], dataset=["nano-math"])
    accuracy = next(place for place, title in enumerate(head) if title.startswith("Accuracy"))
    assert [row[0].rpartition(" #")[0] for row in shown] == list(stored["strategy"])
    assert [row[accuracy] for row in shown] == [
        estimate_of(cell, "accuracy") for cell in stored.to_dict("records")
    ]
    settings = [[row[head.index(name)] for name in ("C", "β", "Calibrator")] for row in shown]
    assert ["0.99", "0.1", "isotonic"] in settings
    assert [MISSING] * 3 in settings


def test_a_reader_sorts_searches_filters_and_chooses_columns_and_the_address_keeps_all_of_it(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(leaderboard(address))
    board_rows(page)
    head = page.get_by_role("columnheader", name="Signed error")
    head.get_by_role("button", name="Signed error", exact=True).press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    stored = catalog.leaderboard(published_path(run_folder)).dropna(subset=["signed_error"])
    order = stored["signed_error"].abs().sort_values(kind="stable").index
    expect_cells(page, [*stored.loc[order, "cell_id"], factory.FAILED_CELL])
    page.wait_for_url(re.compile("sort=signed_error"))

    page.locator(".leaderboard [data-filter=llm]").click()
    page.get_by_label("weak", exact=True).check()
    page.wait_for_url(re.compile("llms=weak"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("ECE", exact=True).check()
    page.wait_for_url(re.compile("columns=.*ece"))
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").press_sequentially("isotonic")
    page.wait_for_url(re.compile("search=isotonic"))

    count = page.locator(".leaderboard .count")
    expect(count).to_have_text("2 of 12 rows")
    seen = [page.locator(".leaderboard thead"), *page.locator(".leaderboard tbody tr").all()]
    expect(seen[0]).to_contain_text("ECE")
    texts = [each.text_content() or "" for each in seen]
    page.reload()
    for each, text in zip(seen, texts, strict=True):
        expect(each).to_have_text(text)
    page.go_back()
    expect(count).to_have_text("6 of 12 rows", timeout=1000 * SECONDS)


def test_two_ticked_rows_and_a_calibrator_lead_to_their_pages(
    page: Page, address: str, run_folder: Path
) -> None:
    first, second, third = catalog.leaderboard(published_path(run_folder))["cell_id"][:3]
    page.goto(leaderboard(address))
    board_rows(page)
    ticks = page.locator(".leaderboard tbody input")
    for place in range(3):
        ticks.nth(place).check()
    expect(ticks.nth(0)).not_to_be_checked()  # only the last two are compared
    page.get_by_role("link", name="Compare the two ticked rows").click()
    page.wait_for_url(re.compile(f"/compare\\?a={escaped(second)}&b={escaped(third)}"))
    page.get_by_role("heading", name="Compare", exact=True).wait_for()
    page.go_back()
    page.locator(f"tr[data-cell='{first}'] a").click()
    page.wait_for_url(re.compile("/calibration\\?"))
    page.get_by_role("heading", name="Calibration", exact=True).wait_for()


def test_the_definition_of_a_metric_opens_by_keyboard(page: Page, address: str) -> None:
    page.goto(leaderboard(address))
    board_rows(page)
    page.get_by_role("button", name="Brier, corrected: Brier score minus").press("Enter")
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("Lower is better.")
    page.keyboard.press("Escape")
    expect(tip).not_to_be_visible()


def test_the_chart_opens_below_the_table(page: Page, address: str) -> None:
    page.goto(leaderboard(address))
    board_rows(page)
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(0)
    page.get_by_text("Chart of one metric").click()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(
        len(factory.DATASETS), timeout=1000 * SECONDS
    )


def test_downloads_have_the_numbers_of_the_database(page: Page, address: str, run_folder: Path) -> None:
    page.goto(leaderboard(address))
    board_rows(page)
    stored = catalog.leaderboard(published_path(run_folder))
    files = {}
    for title in ("CSV", "Parquet", "Markdown", "LaTeX"):
        with page.expect_download() as download:
            page.get_by_role("button", name=title).click()
        files[title] = Path(download.value.path())
    assert files["CSV"].read_text() == stored.to_csv(index=False)
    assert list(pd.read_parquet(files["Parquet"])["brier"].dropna()) == list(stored["brier"].dropna())
    brier = as_shown(*stored.loc[0, ["brier_corrected", "brier_corrected_low", "brier_corrected_high"]])
    assert escape_markdown(brier) in files["Markdown"].read_text()
    lines = files["LaTeX"].read_text().splitlines()
    assert sum(line.endswith(r"\\") for line in lines) == len(stored) + 1
    assert any(brier in line for line in lines)


def test_a_value_that_rounds_to_zero_has_no_sign_and_a_missing_one_no_place(run_folder: Path) -> None:
    stored = catalog.leaderboard(published_path(run_folder)).head(3)
    stored["signed_error"] = [-0.0004, 0.2, float("nan")]
    (column,) = (
        metric
        for metric in leaderboard_table(stored, "calibration", DESCRIBED)["metrics"]
        if metric["name"] == "signed_error"
    )
    assert (column["value"], column["place"]) == (["0.000", "0.200", None], [0, 1, None])


def escaped(cell: str) -> str:
    return cell.replace("/", "%2F")
