"""Pages Scaling and League in a real browser: the values for the selected C and beta, and who is ahead."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prmcal.dashboard.charts.curves import FIXED, TARGETS, coinciding, frontier_points
from prmcal.dashboard.controls.widgets import link
from prmcal.db import catalog
from prmcal.db.overview.query import league
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.budgets import more_accurate, verdict
from prmcal.db.text.overview import league_sentence
from tests.dashboard.conftest import SECONDS, as_shown, rows, unfold

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

GROUP = {"dataset": "nano-math", "llm": "weak", "prm": "qwen"}


def pool_of(run_folder: Path) -> ExactCurves:
    pool = catalog.exact_curves(published_path(run_folder), **GROUP)
    assert pool is not None
    return pool


def table(page: Page) -> list[list[str]]:
    """The rows of the table, once it is unfolded."""
    unfold(page, "in numbers")
    return rows(page)


def shown_accuracy(table: list[list[str]], strategy: str) -> str:
    head, *shown = table
    (row,) = [row for row in shown if row[0] == strategy]
    return row[head.index("Accuracy")]


def expected_accuracy(run_folder: Path, target: float) -> str:
    pool = pool_of(run_folder)
    curve = pool.adaptive("uncalibrated", 0.5, [target])
    found = curve.columns("samples")
    return as_shown(*(found[name][0] for name in ("accuracy", "accuracy_low", "accuracy_high")))


def test_the_target_of_the_address_is_computed_and_the_slider_changes_it(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, C="0.02"))
    name = "best-of-n + IAS, uncalibrated"
    assert shown_accuracy(table(page), name) == expected_accuracy(run_folder, 0.02)
    page.get_by_role("slider").press("End")
    page.wait_for_url("**C=0.999*")
    expected = expected_accuracy(run_folder, 0.999)
    assert expected != expected_accuracy(run_folder, 0.02)
    page.get_by_test_id("stTable").first.get_by_text(expected.replace(", ", ",\N{NO-BREAK SPACE}")).wait_for()
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(1, timeout=1000 * SECONDS)


def test_the_table_has_the_leaderboards_numbers_and_its_frontier_has_real_steps(
    page: Page, address: str, run_folder: Path
) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP))
    head, *shown = table(page)
    stored = catalog.leaderboard(published_path(run_folder), "scaling", llm=["weak"], dataset=["nano-math"])
    pass_at_1 = stored[stored["strategy"] == "pass@1"].iloc[0]
    numbers = (pass_at_1[name] for name in ("accuracy", "accuracy_low", "accuracy_high"))
    assert shown_accuracy([head, *shown], "pass@1") == as_shown(*numbers)
    # Neither oracles nor searches are on the frontier.
    marks = {row[0]: row[head.index("On the frontier")] for row in shown}
    assert marks["oracle IAS"] == ""
    assert "beam search" not in marks
    page.get_by_text("is only on the scaling leaderboard").wait_for()
    pool = pool_of(run_folder)
    values = pd.DataFrame({"cheap": pool.accuracy[:, 0]}, index=pool.question_ids)
    cheap = pd.DataFrame({"cell_id": ["cheap"], "cost": [1.0], "accuracy": [pool.accuracy[:, 0].mean()]})
    for target in TARGETS:
        points = frontier_points(pool, ["uncalibrated"], cheap, values, target, 0.5)
        # pass@1 and the fixed n of 1 are the same point. No other cheap point is as good.
        first = points[points["cost"] == 1.0]
        assert list(first["cell_id"].dropna()) == ["cheap"] and FIXED in set(first["series"])
        steps = points.drop_duplicates(["cost", "accuracy"]).sort_values("cost")
        assert steps["accuracy"].is_monotonic_increasing
        columns = [np.interp(cost, np.arange(1, pool.most + 1), range(pool.most)) for cost in steps["cost"]]
        if all(column == int(column) for column in columns):
            values_of = [pool.accuracy[:, int(column)] for column in columns]
            assert all(more_accurate(np.stack(pair, axis=1))[1, 0] for pair in pairwise(values_of))


def test_equal_cost_is_said_in_a_sentence_and_in_a_table(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/" + link("scaling", **GROUP, view="Equal cost", C="0.9"))
    head, *shown = table(page)
    pool = pool_of(run_folder)
    found = pool.at_equal_cost("uncalibrated", 0.5, [0.9])
    assert [row[0] for row in shown] == ["uncalibrated"]
    row = dict(zip(head, shown[0], strict=True))
    assert row["Samples"] == f"{found['samples'][0]:.2f}"
    assert row["Fixed n of equal cost"] == f"{100 * found['fixed'][0]:.1f}%"
    assert row["Verdict"] == verdict(found["low"][0], found["high"][0])
    sentence = page.locator(".st-key-answer")
    accuracy = 100 * (found["fixed"][0] + found["difference"][0])
    expect(sentence).to_contain_text("uncalibrated; C = 0.9")
    expect(sentence).to_contain_text(f"{accuracy:.1f}% with {found['samples'][0]:.1f} of {pool.most} samples")
    expect(sentence).to_contain_text(f"{row['Verdict'].replace('no gain', 'no clear gain')}: {row['Difference']}")
    one = pool.fixed([1]).columns("samples")
    expect(sentence).to_contain_text(f"One sample is right in {100 * one['accuracy'][0]:.1f}%")
    chart = page.get_by_test_id("stVegaLiteChart")
    expect(chart).to_have_attribute("aria-label", re.compile("Difference at C = 0.9: from .* points .uncalibrated."))


def test_the_league_says_who_is_ahead_and_follows_the_filters(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/" + link("league"))
    found = league(published_path(run_folder))
    page.get_by_text(league_sentence(found)[:60].partition("[")[0].strip()).wait_for()
    expect(page.get_by_test_id("stVegaLiteChart").filter(visible=True)).to_have_count(1)
    page.goto(f"{address}/" + link("league", calibrators="isotonic"))
    page.get_by_text("3 entries in 4 settings").wait_for()  # a fixed n, IAS with isotonic, and the oracle


def test_curves_that_coincide_are_one_band() -> None:
    at = {"a": [0.5, 0.6, 0.7], "b": [0.51, 0.6, 0.68], "c": [0.5, 0.6, 0.9], "d": [0.9]}
    rows = [(name, 2.0**place, value) for name, own in at.items() for place, value in enumerate(own)]
    points = pd.DataFrame(rows, columns=["entry", "samples", "accuracy"])
    assert coinciding(points, ["c", "b", "a", "d"]) == {"c": [], "b": ["a"], "d": []}
