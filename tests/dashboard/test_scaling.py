"""Page Scaling in a real browser: the values for the selected C and beta."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.dashboard.controls.address import link
from prmcal.db.queries import catalog
from prmcal.db.run_folder import published_path
from tests.dashboard.conftest import SECONDS, as_shown, rows

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

GROUP = {"dataset": "nano-math", "llm": "weak", "prm": "qwen"}


def shown_accuracy(page: Page, strategy: str) -> str:
    head, *shown = rows(page)
    (row,) = [row for row in shown if row[0] == strategy]
    return row[head.index("Accuracy")]


def expected_accuracy(run_folder: Path, target: float) -> str:
    pool = catalog.exact_curves(published_path(run_folder), **GROUP)
    assert pool is not None
    curve = pool.adaptive("uncalibrated", 0.5, [target])
    return as_shown(curve.accuracy[0], *curve.intervals()[1][0])


def test_the_target_of_the_address_is_computed_and_moved_by_keyboard(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, C="0.01"))
    name = "best-of-n + IAS, uncalibrated"
    assert shown_accuracy(page, name) == expected_accuracy(run_folder, 0.01)
    slider = page.get_by_role("slider")
    slider.press("End")
    page.wait_for_url("**C=0.999*")
    expected = expected_accuracy(run_folder, 0.999)
    assert expected != expected_accuracy(run_folder, 0.01)
    page.get_by_test_id("stTable").first.get_by_text(expected.replace(", ", ",\N{NO-BREAK SPACE}")).wait_for()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1, timeout=1000 * SECONDS)


def test_the_cost_can_be_tokens_and_the_frontier_is_marked(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, cost="generated tokens"))
    head, *shown = rows(page)
    assert head == ["Strategy", "Generated tokens", "Accuracy", "Pareto-optimal"]
    assert [row[3] for row in shown] == ["●"]  # the factory's other strategies have no tokens
    page.goto(f"{address}/" + link("scaling", **GROUP))
    stored = catalog.leaderboard(published_path(run_folder), "scaling", llm=["weak"], dataset=["nano-math"])
    pass_at_1 = stored[stored["strategy"] == "pass@1"].iloc[0]
    numbers = (pass_at_1[name] for name in ("accuracy", "accuracy_low", "accuracy_high"))
    assert shown_accuracy(page, "pass@1") == as_shown(*numbers)


def test_oracles_and_searches_are_not_on_the_frontier(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP))
    head, *shown = rows(page)
    marks = {row[0]: row[head.index("Pareto-optimal")] for row in shown}
    assert marks["oracle IAS"] == ""
    assert marks["best-of-n + IAS, uncalibrated"] == "●"
    assert "beam search" not in marks
    page.get_by_text("beam search is shown only if the cost is generated tokens").wait_for()


def test_questions_of_each_difficulty_have_numbers_of_their_own(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, view="Difficulty"))
    page.get_by_text("Numbers", exact=True).click()
    _, *shown = rows(page)
    pool = catalog.exact_curves(published_path(run_folder), **GROUP)
    assert pool is not None
    fixed = {row[0]: row[3] for row in shown if row[1] == "fixed n = 1"}
    expected = {str(level): pool.fixed([1], question_level=level).accuracy[0] for level in (1, 2, 3, 4)}
    assert fixed.keys() == expected.keys()
    assert all(fixed[level].startswith(f"{expected[level]:.3f}") for level in fixed)


def test_risk_and_coverage_are_explained(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, view="Risk and coverage"))
    page.get_by_text("Best-of-N answers only the questions whose calibrated reward").wait_for()
