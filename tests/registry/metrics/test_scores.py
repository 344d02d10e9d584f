"""Log loss and the AUROC within questions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.metrics import log_loss, roc_auc_score

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics
from tests.arrays import Floats
from tests.measured import statistic, value

FOLLOW_UPS = 8
REWARDS = [0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.99, 1.0]


def clustered(questions: int, seed: int, shift: float = 0.0, spread: float = 0.7) -> tuple[PrefixRows, Floats]:
    """Rewards that are the expectation of p, except for a shift of the log-odds, and p.

    Prefixes of one question differ from their rewards in the same direction.
    """
    random = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), random.integers(1, 15, questions))
    expected = np.clip(expit(random.normal(0.5, 1.5, len(question))), 0.02, 0.98)
    off = spread * np.minimum(expected, 1 - expected) * random.choice([-1, 1], questions)[question]
    p = expected + off
    n = np.full(len(p), FOLLOW_UPS)
    return PrefixRows(expit(logit(expected) + shift), random.binomial(n, p), n, question), p


@st.composite
def any_rows(draw: st.DrawFn, most: int = 25) -> PrefixRows:
    """Few distinct rewards, so that ties are common, and other numbers of follow-ups."""
    size = draw(st.integers(1, most))
    reward = draw(st.lists(st.sampled_from(REWARDS), min_size=size, max_size=size))
    n = draw(st.lists(st.sampled_from([1, 4, 8]), min_size=size, max_size=size))
    k = [draw(st.integers(0, each)) for each in n]
    question = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    return PrefixRows(np.array(reward), np.array(k), np.array(n), np.array(question))


def repeated(rows: PrefixRows, times: list[int]) -> PrefixRows:
    """The rows of each question as often as `times` says, each time as a question of its own."""
    places = [(place, copy) for place, question in enumerate(rows.question_index) for copy in range(times[question])]
    chosen = np.array([place for place, _ in places])
    names = np.array([10 * rows.question_index[place] + copy for place, copy in places])
    return PrefixRows(
        rows.reward[chosen],
        rows.successes[chosen],
        rows.follow_ups[chosen],
        names,
        rows.terminal[chosen],
        rows.levels,
        rows.quantiles[chosen],
    )


def labels(seed: int, rows: int = 300, questions: int = 12) -> PrefixRows:
    random = np.random.default_rng(seed)
    reward = np.round(random.random(rows), 2)
    label = (random.random(rows) < reward).astype(np.int64)
    return PrefixRows(reward, label, np.ones(rows, dtype=np.int64), random.integers(0, questions, rows))


def test_log_loss_of_labels_is_that_of_scikit_learn() -> None:
    rows = labels(0)
    expected = log_loss(rows.successes, np.clip(rows.reward, 1e-6, 1 - 1e-6))
    assert value("log_loss", rows) == pytest.approx(expected, abs=1e-12)


def test_log_loss_is_lowest_at_p_and_linear_in_the_success_rate() -> None:
    rows, p = clustered(400, 1)
    true = PrefixRows(p, rows.successes, rows.follow_ups, rows.question)
    entropy = float(np.mean(-(p * np.log(p) + (1 - p) * np.log1p(-p))))
    assert value("log_loss", true) == pytest.approx(entropy, abs=0.01)
    assert value("log_loss", true) < value("log_loss", rows)


def test_a_certain_reward_that_is_wrong_costs_no_more_than_the_clip() -> None:
    rows = PrefixRows(np.array([0.0, 1.0]), np.array([8, 0]), np.array([8, 8]), np.array([0, 1]))
    assert value("log_loss", rows) == pytest.approx(-np.log(1e-6))


@settings(max_examples=60, deadline=None)
@given(any_rows(), st.data())
def test_a_weight_repeats_a_question(rows: PrefixRows, data: st.DataObject) -> None:
    questions = len(rows.question_ids)
    times = data.draw(st.lists(st.integers(0, 3), min_size=questions, max_size=questions).filter(any))
    again = repeated(rows, times)
    weights = np.array([times], dtype=np.float64)
    for name in ("log_loss", "auroc_within"):
        measured = metrics.create(name).measure(rows)
        if measured is not None and metrics.create(name).measure(again) is not None:
            found = statistic(name, rows).values(weights)[0]
            assert found == pytest.approx(value(name, again), abs=1e-9), name


def brute_force_auroc(rows: PrefixRows) -> float | None:
    areas = []
    for question in range(len(rows.question_ids)):
        own = np.flatnonzero(rows.question_index == question)
        ranked = pairs = 0.0
        for i, j in itertools.permutations(own, 2):
            weight = rows.success_rate[i] * (1 - rows.success_rate[j])
            gap = rows.reward[i] - rows.reward[j]
            ranked += weight * (0.5 if gap == 0 else float(gap > 0))
            pairs += weight
        if pairs > 0:
            areas.append(ranked / pairs)
    return float(np.mean(areas)) if areas else None


@settings(max_examples=100, deadline=None)
@given(any_rows())
def test_auroc_within_questions_is_that_of_all_pairs(rows: PrefixRows) -> None:
    expected = brute_force_auroc(rows)
    if expected is None:
        assert metrics.create("auroc_within").measure(rows) is None
    else:
        assert value("auroc_within", rows) == pytest.approx(expected, abs=1e-9)


def test_auroc_of_labels_is_that_of_scikit_learn() -> None:
    rows = labels(3)
    areas = [
        roc_auc_score(rows.successes[rows.question == each], rows.reward[rows.question == each])
        for each in rows.question_ids
    ]
    found = estimate(statistic("auroc_within", rows), Bootstrap(200))
    assert found.value == pytest.approx(np.mean(areas), abs=1e-12)
    assert 0 <= found.low < found.value < found.high <= 1


def test_auroc_with_success_rates_is_that_with_probabilities() -> None:
    rows, p = clustered(3000, 4)
    millions = np.full(len(p), 10**9)
    exact = PrefixRows(rows.reward, np.rint(p * 10**9).astype(np.int64), millions, rows.question)
    assert value("auroc_within", rows) == pytest.approx(value("auroc_within", exact), abs=0.01)
