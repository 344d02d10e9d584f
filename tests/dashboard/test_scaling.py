"""The page of scaling in a real browser: what is set is computed, by budget, by difficulty, and with its risk."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.dashboard.controls.address import link
from prmcal.db.files import published_path
from prmcal.db.queries import catalog
from tests.dashboard.conftest import SECONDS, as_shown, rows

playwright = pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
PLACE = {"dataset": "nano-math", "llm": "weak", "prm": "qwen"}


def shown_accuracy(page: playwright.Page, strategy: str) -> str:
    head, *shown = rows(page)
    (row,) = [row for row in shown if row[0] == strategy]
    return row[head.index("Accuracy")]


def expected_accuracy(run_folder: Path, target: float) -> str:
    pool = catalog.scaling_pool(published_path(run_folder), **PLACE)
    curve = pool.adaptive("uncalibrated", 0.5, [target])
    return as_shown(curve.accuracy[0], *curve.intervals()[1][0])


def test_the_target_of_the_address_is_computed_and_moved_by_keyboard(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(address + link("scaling", **PLACE, C="0.01"))
    name = "best-of-n + IAS, uncalibrated"
    assert shown_accuracy(page, name) == expected_accuracy(run_folder, 0.01)
    slider = page.get_by_role("slider")
    slider.press("End")
    page.wait_for_url("**C=0.999*")
    expected = expected_accuracy(run_folder, 0.999)
    assert expected != expected_accuracy(run_folder, 0.01)
    page.get_by_test_id("stTable").first.get_by_text(expected.replace(", ", ",\N{NO-BREAK SPACE}")).wait_for()
    playwright.expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1, timeout=1000 * SECONDS)


def test_costs_may_be_tokens_and_the_frontier_is_marked(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(address + link("scaling", **PLACE, cost="generated tokens"))
    head, *shown = rows(page)
    assert head == ["Strategy", "Generated tokens", "Accuracy", "Unbeaten"]
    assert [row[3] for row in shown] == ["●"]  # the factory's other strategies have no tokens
    page.goto(address + link("scaling", **PLACE))
    stored = catalog.leaderboard(published_path(run_folder), "scaling", llm=["weak"], dataset=["nano-math"])
    pass_at_1 = stored[stored["strategy"] == "pass@1"].iloc[0]
    numbers = (pass_at_1[name] for name in ("accuracy", "accuracy_low", "accuracy_high"))
    assert shown_accuracy(page, "pass@1") == as_shown(*numbers)


def test_what_needs_the_truth_or_counts_steps_beats_no_one(page: playwright.Page, address: str) -> None:
    page.goto(address + link("scaling", **PLACE))
    head, *shown = rows(page)
    marks = {row[0]: row[head.index("Unbeaten")] for row in shown}
    assert marks["oracle IAS"] == ""
    assert marks["best-of-n + IAS, uncalibrated"] == "●"
    assert "beam search" not in marks
    page.get_by_text("searches are shown where the cost is generated tokens").wait_for()


def test_questions_of_each_difficulty_have_numbers_of_their_own(
    page: playwright.Page, address: str, run_folder: Path
) -> None:
    page.goto(address + link("scaling", **PLACE, view="Difficulty"))
    page.get_by_text("Numbers", exact=True).click()
    _, *shown = rows(page)
    pool = catalog.scaling_pool(published_path(run_folder), **PLACE)
    fixed = {row[0]: row[3] for row in shown if row[1] == "fixed n = 1"}
    expected = {str(level): pool.fixed([1], question_level=level).accuracy[0] for level in (1, 2, 3, 4)}
    assert fixed.keys() == expected.keys()
    assert all(fixed[level].startswith(f"{expected[level]:.3f}") for level in fixed)


def test_a_place_without_curves_says_so(page: playwright.Page, address: str) -> None:
    page.goto(address + link("scaling", **PLACE, view="Risk and coverage"))
    page.get_by_text("Only questions whose calibrated reward is at least a threshold are answered").wait_for()
