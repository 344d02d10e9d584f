"""Page Compare in a real browser: it shows the numbers of ``prmcal compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prmcal.dashboard.controls.widgets import link
from prmcal.db import catalog
from prmcal.db.metrics import RANKING_METRIC, cell_id
from prmcal.db.run_folder import published_path
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import typeset
from tests.dashboard.conftest import rows, unfold
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

FIRST, SECOND = (
    cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator=name) for name in ("uncalibrated", "isotonic")
)


def printed(*numbers: Any, **options: Any) -> str:
    """An estimate as the page shows it, with a true minus sign."""
    return typeset(estimate(*numbers, **options)).replace("\N{NO-BREAK SPACE}", " ")


def test_two_cells_are_compared_with_links_to_the_questions_where_they_differ(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("compare", a=FIRST, b=SECOND))
    unfold(page, "metrics in numbers")
    head, *shown = rows(page)
    expected = catalog.compare_cells(published_path(run_folder), cell_a=FIRST, cell_b=SECOND)
    assert len(shown) == len(expected.table)
    for row, each in zip(shown, expected.table.itertuples(), strict=True):
        named = dict(zip(head, row, strict=True))
        assert (named["A"], named["B"]) == (
            printed(each.metric, each.a, each.a_low, each.a_high),
            printed(each.metric, each.b, each.b_low, each.b_high),
        )
        difference = printed(each.metric, each.difference, each.low, each.high, signed=True)
        assert named["B - A"].replace("†", "") == difference
        assert named["significant"] == {None: "", True: "yes", False: "no"}[each.real]
    ranking = expected.table.set_index("metric").loc[RANKING_METRIC]
    answer = page.locator(".st-key-answer")
    expect(answer).to_contain_text(expected.paired_over)
    expect(answer).to_contain_text("B is isotonic, A is uncalibrated")
    better = "Yes" if ranking["difference"] < 0 else "No, B is worse"
    expect(answer).to_contain_text(f"{better if ranking['real'] else 'Not shown'}.")
    listed = rows(page, 1)[1:]
    assert [row[0] for row in listed] == list(expected.differing["question"])
    leads_to = page.get_by_role("link", name=listed[0][0], exact=True).get_attribute("href")
    assert leads_to == link(
        "trajectories",
        dataset="nano-math",
        llm="weak",
        prm="qwen",
        calibrator="isotonic",
        question=expected.differing["question_id"].iloc[0],
    )
    page.goto(f"{address}/{leads_to}")
    page.get_by_text(f"Cell {SECOND}").wait_for()


def test_cells_that_cannot_be_paired_show_the_reason(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("compare", a=factory.FAILED_CELL))
    page.get_by_test_id("stAlert").wait_for()
