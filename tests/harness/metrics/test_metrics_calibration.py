from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.errors import InvalidArgumentsError
from prmcal.harness.metrics.measured import reliability_bins, signed_error_bins
from prmcal.registry.calibrators.reward import Histogram
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.bins import bin_edges, bin_index
from prmcal.registry.plugins import metrics
from tests.arrays import Floats, Ints
from tests.measured import published_metrics, value

FEW = Bootstrap(20)


def make_rows(
    reward: ArrayLike, success_rate: ArrayLike, follow_ups: ArrayLike = 8, question: ArrayLike | None = None
) -> PrefixRows:
    reward = np.asarray(reward, dtype=np.float64)
    n = np.broadcast_to(np.asarray(follow_ups), reward.shape)
    k = np.rint(np.asarray(success_rate) * n).astype(np.int64)
    return PrefixRows(reward, k, n, np.arange(len(reward)) if question is None else np.asarray(question))


@st.composite
def random_rows(draw: st.DrawFn) -> PrefixRows:
    size = draw(st.integers(1, 40))
    # Few distinct rewards, so that ties and edges of bins are common.
    reward = draw(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.99, 1.0]), min_size=size, max_size=size))
    k = draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))
    question = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    return PrefixRows(np.array(reward), np.array(k), np.full(size, 8), np.array(question))


def test_worked_example() -> None:
    rows = make_rows([0.0, 0.5, 1.0], [0.0, 1.0, 0.0])
    assert value("brier", rows) == pytest.approx(1.25 / 3)
    assert value("positive_brier", rows) == pytest.approx(1 / 3)
    assert value("ece", rows, bins=2) == pytest.approx(1 / 6)
    assert value("average_ce", rows, bins=2) == pytest.approx(0.125)
    assert value("signed_error", rows) == pytest.approx(1 / 6)
    # 1.5 rows a bin: |0 - .5/2| and |-.5/2 + 1|, each over 1.5.
    assert value("adaptive_ce", rows, bins=2) == pytest.approx((0.25 + 0.75) / 1.5 / 2)


@pytest.mark.parametrize("bins", [3, 7, 10, 15, 20, 100])
def test_every_edge_is_in_the_bin_above_it(bins: int) -> None:
    edges = np.array([k / bins for k in range(bins + 1)])
    assert bin_edges(bins).tolist() == edges.tolist()
    assert bin_index(edges, bin_edges(bins)).tolist() == [*range(bins), bins - 1]
    table = reliability_bins(make_rows(edges, np.ones(bins + 1)), bins)
    assert table["count"].tolist() == [1] * (bins - 1) + [2]
    calibrator = Histogram(bins=bins)
    k = np.arange(bins + 1)
    calibrator.fit(edges, k, np.full(bins + 1, bins))
    assert calibrator.predict(edges[:-1])[:-1] == pytest.approx(edges[:-2])


def test_errors_that_are_differences_of_decimals_are_in_the_bin_of_their_value() -> None:
    k = np.arange(11)
    reward, success_rate = (each.ravel() for each in np.meshgrid(k / 10, k / 10))
    table = signed_error_bins(make_rows(reward, success_rate, follow_ups=10))
    tenths = np.subtract.outer(k, k).ravel()
    # 20 bins are 0.1 wide, so that every error is on an edge.
    assert table["count"].tolist() == np.bincount(np.minimum(tenths + 10, 19), minlength=20).tolist()
    assert table.lower[13] == 0.3 and table.lower[3] == -0.7


def test_adaptive_bins_share_tied_rewards_evenly() -> None:
    # One reward for all: every bin sees the same mixture of all rows, whatever their order.
    rows = make_rows([0.5] * 4, [1, 1, 0.25, 0.25])
    assert value("adaptive_ce", rows, bins=2) == pytest.approx(0.125)
    assert value("adaptive_ce", rows, bins=3) == pytest.approx(0.125)


@settings(max_examples=60, deadline=None)
@given(random_rows(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_metric_depends_on_the_order_of_the_rows(rows: PrefixRows, bins: int, random: Random) -> None:
    order = list(range(len(rows.reward)))
    random.shuffle(order)
    shuffled = PrefixRows(rows.reward[order], rows.successes[order], rows.follow_ups[order], rows.question[order])
    again = published_metrics(shuffled, bins, FEW)
    for name, metric in published_metrics(rows, bins, FEW).items():
        assert again[name].value() == pytest.approx(metric.value(), abs=1e-12), name


@settings(max_examples=60, deadline=None)
@given(random_rows(), st.integers(1, 12))
def test_bounds_and_order_of_the_metrics(rows: PrefixRows, bins: int) -> None:
    values = {name: metric.value() for name, metric in published_metrics(rows, bins, FEW).items()}
    assert 0 <= values["positive_brier"] <= values["brier"] <= 1
    assert values["brier_corrected"] <= values["brier"] + 1e-15
    for name in ("ece", "adaptive_ce"):
        assert abs(values["signed_error"]) - 1e-12 <= values[name] <= 1
    assert 0 <= values["average_ce"] <= 1
    assert 0 <= values["adaptive_ce_corrected"] <= values["adaptive_ce"]


@settings(max_examples=40, deadline=None)
@given(random_rows(), st.integers(1, 12), st.data())
def test_a_weight_is_as_good_as_repeating_the_question(rows: PrefixRows, bins: int, data: st.DataObject) -> None:
    questions = len(rows.question_ids)
    weights = data.draw(st.lists(st.integers(0, 3), min_size=questions, max_size=questions).filter(any))
    repeats = np.array(weights)[rows.question_index]
    repeated = PrefixRows(
        np.repeat(rows.reward, repeats),
        np.repeat(rows.successes, repeats),
        np.repeat(rows.follow_ups, repeats),
        np.repeat(rows.question, repeats),
    )
    expected = published_metrics(repeated, bins, FEW)
    for name, metric in published_metrics(rows, bins, FEW).items():
        if name == "adaptive_ce_corrected":
            continue  # It keeps the noise that was measured with the given questions.
        weighted = metric.values(np.array([weights], dtype=np.float64))
        assert weighted[0] == pytest.approx(expected[name].value(), abs=1e-12), name


def test_noise_correction_is_unbiased_and_the_plain_score_is_not() -> None:
    generator = np.random.default_rng(5)
    p = generator.random(200_000)
    for n in (2, 8):
        reward = np.clip(p + 0.1, 0, 1)
        rows = PrefixRows(reward, generator.binomial(n, p), np.full(p.shape, n), np.arange(len(p)) % 100)
        truth = np.mean((reward - p) ** 2)
        noise = np.mean(p * (1 - p)) / n
        assert value("brier_corrected", rows) == pytest.approx(truth, abs=0.002)
        assert value("brier", rows) == pytest.approx(truth + noise, abs=0.002)


def test_noise_correction_leaves_certain_prefixes_alone_and_refuses_a_single_follow_up() -> None:
    certain = make_rows([0.2, 0.7], [0, 1])
    assert value("brier_corrected", certain) == value("brier", certain)
    single = make_rows([0.2, 0.7], [0, 1], follow_ups=[1, 8])
    assert metrics.create("brier_corrected").measure(single) is None
    assert "brier_corrected" not in published_metrics(single)


def test_equal_to_scikit_learn_on_labels() -> None:
    generator = np.random.default_rng(7)
    reward, label = generator.random(5000), generator.integers(0, 2, 5000)
    rows = make_rows(reward, label, follow_ups=1)
    assert value("brier", rows) == pytest.approx(brier_score_loss(label, reward), abs=1e-13)
    success, predicted = calibration_curve(label, reward, n_bins=10)
    table = reliability_bins(rows)
    np.testing.assert_allclose(table.mean_success, success, atol=1e-13)
    np.testing.assert_allclose(table.mean_reward, predicted, atol=1e-13)
    gaps = np.abs(success - predicted)
    assert value("average_ce", rows) == pytest.approx(gaps.mean(), abs=1e-13)
    assert value("ece", rows) == pytest.approx(np.average(gaps, weights=table["count"]), abs=1e-13)
    success, predicted = calibration_curve(label, reward, n_bins=10, strategy="quantile")
    assert value("adaptive_ce", rows) == pytest.approx(np.abs(success - predicted).mean(), abs=1e-13)


def test_reliability_bins_have_intervals_only_where_two_questions_are() -> None:
    rows = make_rows([0.05, 0.06, 0.55, 0.56, 0.95], [0, 0.5, 0.25, 0.75, 1], question=[0, 1, 2, 2, 3])
    table = reliability_bins(rows)
    assert table["count"].tolist() == [2, 0, 0, 0, 0, 2, 0, 0, 0, 1]
    assert table.mean_success[5] == 0.5 and np.isnan(table.mean_success[1])
    assert np.isnan(table.low[[1, 5, 9]]).all() and np.isnan(table.high[[1, 5, 9]]).all()
    assert table.low[0] == pytest.approx(0) and 0.9 < table.high[0] <= 1  # Two questions say little.
    assert table.lower[0] == 0 and table.upper.iloc[-1] == 1


@pytest.mark.parametrize(
    ("reward", "k", "n", "message"),
    [
        ([], [], [], "no rows"),
        ([np.nan], [1], [2], "without NaN"),
        ([1.1], [1], [2], r"in \[0, 1\]"),
        ([0.5], [3], [2], "0 <= k <= n"),
        ([0.5], [0], [0], "n >= 1"),
        ([0.5, 0.5], [1], [2], "shape"),
    ],
)
def test_rows_out_of_range_are_refused(reward: Floats, k: Ints, n: Ints, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrefixRows(np.array(reward), np.array(k), np.array(n), np.zeros(len(reward), dtype=int))


def test_there_must_be_a_bin() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"must be greater than or equal to 1\. Got 0 instead\."):
        published_metrics(make_rows([0.5], [1]), bins=0)
