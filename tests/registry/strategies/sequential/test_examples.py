"""The rules in `examples/`: they conform, import what every plugin may, and stop where their definition says."""

from __future__ import annotations

import ast
from functools import cache
from itertools import permutations, product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, factorial
from scipy.stats import beta
from scipy.stats import t as student

from prmcal.harness.cli.check import check_plugins
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.plugins import load_plugin_file, strategies
from prmcal.registry.strategies.sequential import SequentialRule
from tests.conftest import ROOT
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import (
    Hand,
    best_is_right,
    compare,
    most_frequent_is_right,
    small_pool,
    some_orders,
    world,
)

FILES = {
    "BEACON": "beacon.py",
    "pandora": "pandora.py",
    "CGES": "cges.py",
    "ReASC": "reasc.py",
    "Bayesian stopping": "bayesian_stopping.py",
}
EXAMPLES = {name: ROOT / "examples" / file for name, file in FILES.items()}


def example(name: str, **arguments: float) -> SequentialRule:
    load_plugin_file(EXAMPLES[name])
    return create_as(SequentialRule, strategies, name, **arguments)


def tuned(name: str, pool: Pool) -> SequentialRule:
    rule = example(name)
    rule.tune(pool, Allowance(pool.size))
    return rule


def shares_right(hand: Hand) -> dict[int, float]:
    """Return how often each answer in hand is right."""
    every = {one.answer: [each.correct for each in hand if each.answer == one.answer] for one in hand}
    return {answer: float(np.mean(right)) for answer, right in every.items() if answer >= 0}


def leader_is_right(evidence: dict[int, float], hand: Hand) -> float:
    """Return the chance that the answer with most evidence is right."""
    best = [answer for answer, each in evidence.items() if each > max(evidence.values()) - 1e-9]
    return float(np.mean([shares_right(hand)[answer] for answer in best])) if best else 0.0


@pytest.mark.parametrize(("name", "path"), EXAMPLES.items())
def test_an_example_is_a_plugin_of_a_third_party(name: str, path: Path) -> None:
    report, passed = check_plugins(str(path), None, [], None)
    assert passed and name in report, report
    modules = {each.module for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.ImportFrom)}
    assert {each for each in modules if each and each.startswith("prmcal")} == {"prmcal"}


@pytest.mark.parametrize("name", ["BEACON", "pandora"])
def test_a_higher_cost_draws_less(name: str) -> None:
    pool, rule = world(10, 10, 32), example(name)
    curve = [each.samples.mean() for each in rule.sweep(pool, Allowance(32))]
    assert curve == sorted(curve) and curve[0] < 6 and curve[-1] > 2 * curve[0]
    few = rule.answer(pool, Allowance(2))
    assert few.samples.tolist() == [2.0] * 10


@pytest.mark.parametrize(("name", "fewest"), [("BEACON", 3.0), ("pandora", 4.0)])
def test_equal_scores_stop_at_once_and_far_scores_do_not_overflow(name: str, fewest: float) -> None:
    pool, rule = world(9, 4, 16), example(name)
    same = Pool(pool.correct, pool.answers, scores=np.zeros(pool.correct.shape))
    assert rule.answer(same, Allowance(16)).samples.tolist() == [fewest] * 4
    far = Pool(pool.correct, pool.answers, scores=pool.scores * 400)
    assert np.isfinite(rule.answer(far, Allowance(16)).accuracy).all()


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


def test_cges_multiplies_likelihoods() -> None:
    pool = small_pool(5)
    rule = tuned("CGES", pool)

    def confidence(score: float) -> float:
        return float(expit(rule.line[0] * (score - rule.middle) / rule.spread + rule.line[1]))  # type: ignore[attr-defined]

    def masses(hand: Hand) -> dict[int, float]:
        read = [(one.answer, confidence(one.score)) for one in hand if one.answer >= 0 and one.score == one.score]
        answers = {answer for answer, _ in read}

        def likelihood(right: int) -> float:
            return float(np.prod([c if answer == right else (1 - c) / len(answers) for answer, c in read]))

        every = {answer: likelihood(answer) for answer in answers}
        total = sum(every.values()) + likelihood(-1)
        return {answer: each / total for answer, each in every.items()}

    def value(hand: Hand, question: int) -> float:
        return max(masses(hand).values(), default=0.0)

    right = lambda hand: leader_is_right(masses(hand), hand)  # noqa: E731
    assert len(np.unique(compare(rule, pool, (0.5, 0.71, 0.93), value, right))) >= 4


def test_reasc_passes_the_gate_or_weighs_votes() -> None:
    pool = small_pool(6)
    rule = tuned("ReASC", pool)
    read = np.isfinite(pool.scores)
    passing = [x for x in pool.scores[read] if pool.correct[read][pool.scores[read] >= x].mean() >= 0.9]
    gate = max(min(passing), pool.scores[read][pool.correct[read]].mean())
    middle, spread = pool.scores[read].mean(), pool.scores[read].std()

    def votes(hand: Hand) -> dict[int, float]:
        weights = [max(1.0, np.exp(0.7 * (one.score - middle) / spread)) for one in hand]
        sums = {
            answer: sum(w for one, w in zip(hand, weights, strict=True) if one.answer == answer)
            for answer in shares_right(hand)
        }
        return {answer: float(each) for answer, each in sums.items()}

    def value(hand: Hand, question: int) -> float:
        if len(hand) == 1 and hand[0].score >= gate:
            return 1.0
        first, second = sorted([*votes(hand).values(), 0.0, 0.0])[:-3:-1]
        return float(beta.sf(0.5, first + 1, second + 1))

    stops = compare(rule, pool, (0.6, 0.8, 0.95), value, lambda hand: leader_is_right(votes(hand), hand))
    assert len(np.unique(stops)) >= 4


def test_bayesian_stopping_sums_over_all_shares() -> None:
    pool = small_pool(7)
    shapes = []
    for own in pool.answers:
        counts = np.sort(np.unique(own[own >= 0], return_counts=True)[1])[::-1]
        shapes.append(counts / counts.sum())

    @cache
    def posterior(a: int, b: int, *rest: int) -> float:
        if not a:
            return 0.0
        leader = whole = 0.0
        for shape in shapes:
            for order in permutations(range(len(shape)), min(2, len(shape)) if b else 1):
                left = np.delete(shape, order)
                ways = 0.0
                for r in product(range(b + 1), repeat=len(left)):
                    ties, c = r.count(b) if b else 0, 2 if a == b else 1
                    if sum(r) == sum(rest):
                        ways += float(np.prod(left ** np.array(r) / factorial(r))) / comb(ties + c, c)
                term = shape[order[0]] ** a * (shape[order[1]] ** b if len(order) > 1 else not b) * ways
                leader, whole = leader + term * (order[0] == 0), whole + term
        return leader / whole if whole else 0.0

    def value(hand: Hand, question: int) -> float:
        return posterior(*counted(hand), 0, 0)

    stops = compare(tuned("Bayesian stopping", pool), pool, (0.55, 0.7, 0.9), value, most_frequent_is_right)
    assert len(np.unique(stops)) >= 4


def counted(hand: Hand) -> list[int]:
    """The votes of all answers, the most first."""
    return sorted((sum(each.answer == answer for each in hand) for answer in shares_right(hand)), reverse=True)
