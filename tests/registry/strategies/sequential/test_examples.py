"""The rules in `examples/`: they conform, import what every plugin may, and stop where their definition says."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import t as student

from prmcal.harness.cli.check import check_plugins
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.plugins import load_plugin_file, strategies
from prmcal.registry.strategies.sequential import SequentialRule
from tests.conftest import ROOT
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import (
    Hand,
    best_is_right,
    compare,
    small_pool,
    some_orders,
    world,
)

EXAMPLES = {"BEACON": ROOT / "examples" / "beacon.py", "pandora": ROOT / "examples" / "pandora.py"}


def example(name: str, **arguments: float) -> SequentialRule:
    load_plugin_file(EXAMPLES[name])
    return create_as(SequentialRule, strategies, name, **arguments)


@pytest.mark.parametrize(("name", "path"), EXAMPLES.items())
def test_an_example_is_a_plugin_of_a_third_party(name: str, path: Path) -> None:
    report, passed = check_plugins(str(path), None, [], None)
    assert passed and name in report, report
    modules = {
        each.module for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.ImportFrom)
    }
    assert {each for each in modules if each and each.startswith("prmcal")} == {"prmcal"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_higher_cost_draws_less(name: str) -> None:
    pool, rule = world(10, 10, 32), example(name)
    curve = [each.samples.mean() for each in rule.sweep(pool, Setting(32))]
    assert curve == sorted(curve) and curve[0] < 6 and curve[-1] > 2 * curve[0]
    few = rule.answer(pool, Setting(2))
    assert few.samples.tolist() == [2.0] * 10


@pytest.mark.parametrize(("name", "fewest"), [("BEACON", 3.0), ("pandora", 4.0)])
def test_equal_scores_stop_at_once_and_far_scores_do_not_overflow(name: str, fewest: float) -> None:
    pool, rule = world(9, 4, 16), example(name)
    same = Pool(pool.correct, pool.answers, scores=np.zeros(pool.correct.shape))
    assert rule.answer(same, Setting(16)).samples.tolist() == [fewest] * 4
    far = Pool(pool.correct, pool.answers, scores=pool.scores * 400)
    assert np.isfinite(rule.answer(far, Setting(16)).accuracy).all()


@pytest.mark.parametrize("most", [5, 30])
def test_pandora_in_every_order(most: int) -> None:
    def value(hand: Hand, question: int) -> float:
        if len(hand) < 2:
            return -np.inf
        odds = [0.0 if np.isnan(one.score) else float(np.exp(one.score)) for one in hand]
        median = float(np.median(odds))
        excess = [each - median for each in odds if each > median]
        if not excess:
            return 0.0
        scale = float(np.mean(excess))
        largest = median + scale * float(np.log(most / 5))

        def utility(x: float) -> float:
            return x / (x + largest) if x + largest else 0.0

        def gained(x: float) -> float:
            return (utility(x) - utility(max(odds))) * float(np.exp(-(x - median) / scale)) / scale

        return -0.5 * float(quad(gained, max(odds), max(odds) + 60 * scale)[0])

    points = (-0.2, -0.05, -0.02, -0.005)
    orders = None if most == 5 else some_orders(most, 4)
    rule = example("pandora", first=2)
    stops = compare(rule, small_pool(8, 6, most), points, value, best_is_right, orders)
    assert len(np.unique(stops)) >= 4


def test_beacon_looks_one_draw_ahead_before_the_last() -> None:
    def value(hand: Hand, question: int) -> float:
        scores = [one.score for one in hand if not np.isnan(one.score)]
        k = len(scores)
        if k < 3:
            return -np.inf
        sigma = float(np.std(scores, ddof=1) * np.sqrt(1 + 1 / k))
        if sigma == 0:
            return 0.0
        lead = float((max(scores) - np.mean(scores)) / sigma)
        return -sigma * float(quad(lambda x: (x - lead) * student.pdf(x, k - 1), lead, np.inf)[0])

    stops = compare(example("BEACON"), small_pool(11, 8, 4), (-2.1, -0.9, -0.45), value, best_is_right)
    assert set(np.unique(stops)) == {3, 4}
