"""Log loss, the CORP decomposition and the AUROC within questions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics
from tests.measured import statistic, value
from tests.registry.metrics.worlds import any_rows, clustered, repeated


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


@settings(max_examples=100, deadline=None)
@given(any_rows())
def test_the_decomposition_is_exact_and_its_parts_are_in_their_ranges(rows: PrefixRows) -> None:
    parts = [value(name, rows) for name in ("miscalibration", "discrimination", "uncertainty")]
    weights = rows.follow_ups
    brier = np.average((rows.reward - rows.success_rate) ** 2, weights=weights)
    assert parts[0] - parts[1] + parts[2] == pytest.approx(brier, abs=1e-12)
    assert parts[0] >= -1e-12 and -1e-12 <= parts[1] <= parts[2] + 1e-12 and parts[2] <= 0.25
    fitted = IsotonicRegression().fit_transform(rows.reward, rows.success_rate, sample_weight=weights)
    recalibrated = np.average((fitted - rows.success_rate) ** 2, weights=weights)
    assert parts[0] == pytest.approx(brier - recalibrated, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(any_rows(), st.data())
def test_a_weight_repeats_a_question(rows: PrefixRows, data: st.DataObject) -> None:
    questions = len(rows.question_ids)
    times = data.draw(st.lists(st.integers(0, 3), min_size=questions, max_size=questions).filter(any))
    again = repeated(rows, times)
    weights = np.array([times], dtype=np.float64)
    for name in (
        *("log_loss", "miscalibration", "discrimination", "uncertainty", "auroc_within"),
        *("smooth_ce", "law_score"),
    ):
        measured = metrics.create(name).measure(rows)
        if measured is not None and metrics.create(name).measure(again) is not None:
            found = statistic(name, rows).values(weights)[0]
            assert found == pytest.approx(value(name, again), abs=1e-5), name


def test_recalibration_removes_miscalibration_and_leaves_discrimination() -> None:
    rows, _ = clustered(200, 2, shift=1.5)
    fitted = IsotonicRegression().fit_transform(rows.reward, rows.success_rate)
    better = PrefixRows(np.clip(fitted, 0, 1), rows.successes, rows.follow_ups, rows.question)
    assert value("miscalibration", rows) > 0.03
    assert value("miscalibration", better) == pytest.approx(0, abs=1e-12)
    for name in ("discrimination", "uncertainty"):
        assert value(name, better) == pytest.approx(value(name, rows), abs=1e-12)
    found = estimate(statistic("miscalibration", rows), Bootstrap(300))
    assert 0.02 < found.low < found.value < found.high < 0.2


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


@settings(max_examples=40, deadline=None)
@given(any_rows())
def test_auroc_does_not_change_with_the_scale_and_turns_with_the_sign(rows: PrefixRows) -> None:
    expected = brute_force_auroc(rows)
    assume(expected is not None)
    assert expected is not None
    for reward, area in ((rows.reward**3 / 2, expected), (1 - rows.reward, 1 - expected)):
        moved = PrefixRows(reward, rows.successes, rows.follow_ups, rows.question)
        assert value("auroc_within", moved) == pytest.approx(area, abs=1e-9)


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
