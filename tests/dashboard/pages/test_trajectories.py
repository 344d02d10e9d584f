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
from tests.dashboard.conftest import SECONDS, choose, grid, rows
from tests.db import factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")


def go(page: Page, address: str, **state: str) -> None:
    page.goto(f"{address}/" + link("trajectories", **state))
    page.get_by_text("95% Clopper-Pearson intervals").wait_for()


def test_questions_show_the_numbers_of_the_database(page: Page, address: str, run_folder: Path) -> None:
    go(page, address, cell=CELL)
    stored = catalog.questions(published_path(run_folder), CELL)
    head, *shown = grid(page, len(stored))
    named = [dict(zip(head, row, strict=True)) for row in shown]
    assert [row["Question"] for row in named] == list(stored["question_id"])
    for title, column in (
        ("pass@1", "pass_at_1"),
        ("PRM error", "reward_error"),
        ("Calibrated error", "calibrated_error"),
    ):
        assert [float(row[title]) for row in named] == stored[column].to_list()


def test_steps_show_rewards_and_success_rates(page: Page, address: str, run_folder: Path) -> None:
    go(page, address, cell=CELL, question="q1", trajectory="2")
    prefixes = catalog.prefixes(published_path(run_folder), CELL, "q1")
    row = step_table(prefixes, 2).to_dict("records")[1]
    head, _, shown, *_ = rows(page)
    named = dict(zip(head, shown, strict=True))
    assert named["PRM reward"] == number(row["reward"])
    assert named["Calibrated reward"].startswith(number(row["calibrated"]))
    assert named["Success rate"].startswith(f"{row['successes']} of 8: {number(row['success'])}")
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1, timeout=1000 * SECONDS)


def test_text_of_a_model_is_text_and_its_formulas_are_formulas(page: Page, address: str) -> None:
    go(page, address, cell=CELL, question="q0", trajectory="0")
    main = page.get_by_test_id("stMain")
    main.get_by_text("<script>alert('text')</script> **bold**").wait_for()
    expect(main.locator(".katex")).to_have_count(2)
    expect(main.locator("script")).to_have_count(0)


def test_a_selected_row_is_shown_and_written_to_the_address(
    page: Page, address: str, run_folder: Path
) -> None:
    go(page, address, cell=CELL, list="Most overestimated", reward="uncalibrated")
    worst = catalog.worst_prefixes(published_path(run_folder), CELL, column="reward")
    # The page shows the first question by default, so the test selects another one.
    place = list(worst["question_id"] != "q0").index(True)
    question, trajectory = worst.loc[place, ["question_id", "trajectory"]]
    table = page.get_by_test_id("stDataFrame").first
    row = table.locator("table[role=grid] tbody tr").nth(place)
    expect(row).to_contain_text(question)
    table.locator(".dvn-scroller").click(position={"x": 15, "y": 55 + 35 * place})
    page.wait_for_url(f"**question={question}*")
    page.get_by_text(f"Trajectory {trajectory}:").wait_for()
    choose(page, "Calibrator", "temperature")
    page.wait_for_url("**calibrator=temperature*")
    page.get_by_text("Cell calibration/weak/qwen/temperature/nano-math").wait_for()


def test_a_scaling_cell_and_a_failed_one_have_their_trajectories(page: Page, address: str) -> None:
    go(page, address, cell=cell_id("scaling", "strong", "nano-aime", strategy="pass@1"))
    page.get_by_text("Cell calibration/strong/qwen/temperature/nano-aime").wait_for()  # the best one
    go(page, address, cell=factory.FAILED_CELL)
    expect(page.get_by_test_id("stAlert")).to_have_text(f"This cell failed: {factory.REASON}")


def test_an_unknown_cell_is_named_and_the_first_shown(page: Page, address: str) -> None:
    go(page, address, cell="calibration/<b>nobody</b>")
    expect(page.get_by_test_id("stAlert")).to_contain_text("There is no cell 'calibration/<b>nobody</b>'")
