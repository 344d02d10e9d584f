"""Page Trajectories in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.dashboard.charts.trajectory import step_table
from prmcal.dashboard.controls.widgets import link
from prmcal.dashboard.formats import number
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import published_path
from tests.dashboard.conftest import SECONDS, choose, drawn, grid, rows, unfold
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")


def go(page: Page, address: str, **state: str) -> None:
    page.goto(f"{address}/" + link("trajectories", **state))
    page.get_by_text("95% Clopper-Pearson intervals").wait_for()


def test_the_page_opens_where_calibration_helps_and_leads_to_where_it_does_not(
    page: Page, address: str, run_folder: Path
) -> None:
    stored = catalog.solutions(published_path(run_folder), CELL)
    assert stored["repaired"].iloc[0] > 0 > stored["repaired"].iloc[-1]
    answer = page.locator(".st-key-answer")
    for case, place, text in ((None, 0, "Here it helps."), ("Where it does not", -1, "Here it does not.")):
        go(page, address, cell=CELL, **({"case": case} if case else {}))
        expect(answer).to_contain_text(text)
        before, after = stored[["before", "after"]].iloc[place]
        expect(answer).to_contain_text(f"off by {number(before, 2)} before and by {number(after, 2)} after")
    unfold(page, "Other solutions")
    head, *shown = grid(page, len(stored))
    named = [dict(zip(head, row, strict=True)) for row in shown]
    assert [row["Question"] for row in named] == list(stored["question_id"])
    for title, column in (
        ("Off before", "before"),
        ("Off after", "after"),
        ("Error after", "calibrated_error"),
    ):
        assert [float(row[title]) for row in named] == stored[column].to_list()


def test_steps_show_rewards_and_success_rates(page: Page, address: str, run_folder: Path) -> None:
    go(page, address, cell=CELL, question="q1", trajectory="2")
    prefixes = catalog.prefixes(published_path(run_folder), CELL, "q1")
    row = step_table(prefixes, 2).to_dict("records")[1]
    head, _, shown, *_ = rows(page)
    named = dict(zip(head, shown, strict=True))
    assert [named["Before"], named["After"]] == [number(row["reward"]), number(row["calibrated"])]
    assert named["Right"] == f"{row['successes']} of 8"
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1, timeout=1000 * SECONDS)


def test_text_of_a_model_is_text_and_its_formulas_are_formulas(page: Page, address: str) -> None:
    go(page, address, cell=CELL, question="q0", trajectory="0")
    main = page.get_by_test_id("stMain")
    main.get_by_text("<script>alert('text')</script> **bold**").wait_for()
    expect(main.locator(".katex")).to_have_count(2)
    expect(main.locator("script")).to_have_count(0)


def test_a_selected_row_is_shown_and_written_to_the_address(page: Page, address: str, run_folder: Path) -> None:
    go(page, address, cell=CELL)
    stored = catalog.solutions(published_path(run_folder), CELL)
    # The page shows the first question by default, so the test selects another one.
    place = list(stored["question_id"] != stored["question_id"].iloc[0]).index(True)
    question, trajectory = stored.loc[place, ["question_id", "trajectory"]]
    unfold(page, "Other solutions")
    table = page.get_by_test_id("stDataFrame").first
    row = table.locator("table[role=grid] tbody tr").nth(place)
    expect(row).to_contain_text(question)
    table.locator(".dvn-scroller").click(position={"x": 15, "y": 55 + 35 * place})
    page.wait_for_url(f"**question={question}*")
    expect(page.get_by_role("combobox", name="Solution")).to_have_value(str(trajectory))
    go(page, address, cell=CELL)
    drawn(page)
    choose(page, "Calibrator", "temperature")
    page.wait_for_url("**calibrator=temperature*")
    page.get_by_text("Cell calibration/weak/qwen/temperature/nano-math").wait_for()


def test_a_scaling_cell_and_a_failed_one_have_their_trajectories(page: Page, address: str) -> None:
    go(page, address, cell=cell_id("scaling", "strong", "nano-aime", strategy="pass@1"))
    page.get_by_text("Cell calibration/strong/qwen/temperature/nano-aime").wait_for()  # the best one
    go(page, address, cell=factory.FAILED_CELL)
    expect(page.get_by_test_id("stAlert")).to_have_text(f"This cell failed: {factory.REASON}")
