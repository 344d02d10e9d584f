"""Page Compare in a real browser: it shows the numbers of ``prmcal compare``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from prmcal.dashboard.controls.widgets import link
from prmcal.db import catalog
from prmcal.db.metrics import MAIN_METRICS, cell_id
from prmcal.db.run_folder import published_path
from prmcal.db.text.board import estimate
from tests.dashboard.conftest import grid, rows
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page

FIRST, SECOND = (
    cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator=name)
    for name in ("uncalibrated", "isotonic")
)


def test_two_cells_are_compared_with_links_to_the_questions_where_they_differ(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("compare", a=FIRST, b=SECOND))
    head, *shown = grid(page)
    expected = catalog.compare_cells(published_path(run_folder), cell_a=FIRST, cell_b=SECOND)
    main = expected.table["metric"].isin(MAIN_METRICS["calibration"])
    ordered = pd.concat([expected.table[main], expected.table[~main]])
    assert len(shown) == min(10, len(ordered))  # the rest is shown on a click
    for row, each in zip(shown, ordered.head(10).itertuples(), strict=True):
        named = dict(zip(head, row, strict=True))
        assert (named["A"], named["B"]) == (
            estimate(each.metric, each.a, each.a_low, each.a_high),
            estimate(each.metric, each.b, each.b_low, each.b_high),
        )
        difference = estimate(each.metric, each.difference, each.low, each.high, signed=True)
        assert named["A - B"].replace("†", "") == difference
        assert named["significant"] == {None: "", True: "yes", False: "no"}[each.real]
    page.get_by_text(expected.paired_over).wait_for()
    listed = rows(page)[1:]
    assert [row[0] for row in listed] == list(expected.differing["question"])
    leads_to = page.get_by_role("link", name=listed[0][0], exact=True).get_attribute("href")
    assert leads_to == link(
        "trajectories",
        dataset="nano-math",
        llm="weak",
        prm="qwen",
        calibrator="uncalibrated",
        question=expected.differing["question_id"].iloc[0],
    )
    page.goto(f"{address}/{leads_to}")
    page.get_by_text(f"Cell {FIRST}").wait_for()


def test_cells_that_cannot_be_paired_show_the_reason(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("compare", a=factory.FAILED_CELL))
    page.get_by_test_id("stAlert").wait_for()
