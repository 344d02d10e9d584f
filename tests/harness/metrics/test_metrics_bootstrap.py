from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, Ratio, estimate, intervals
from prmcal.db.statistics.intervals import bounded_interval, skewed_interval
from prmcal.db.statistics.paired import Replicated, holm, replicated_difference
from prmcal.registry.contracts.metric import PrefixRows
from tests.measured import paired_difference, published_metrics, row_mean


def overconfident_rows(offset: float, questions: int = 40, seed: int = 0) -> PrefixRows:
    generator = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), 20)
    p = generator.random(questions)[question]
    return PrefixRows(np.clip(p + offset, 0, 1), generator.binomial(8, p), np.full(len(p), 8), question)


def test_intervals_at_once_are_those_of_each_statistic() -> None:
    values = np.random.default_rng(5).random((4, 30))
    rules = (bounded_interval, bounded_interval, skewed_interval, bounded_interval)
    means = [QuestionMean(each, interval=rule) for each, rule in zip(values, rules, strict=True)]
    means[3] = QuestionMean(values[3, :9], interval=bounded_interval)
    found = intervals([*means, means[0]])
    assert list(found) == [means[0], means[1], means[2], means[3]]
    for mean in means:
        alone = estimate(mean, Bootstrap(10))
        assert found[mean] == pytest.approx((alone.low, alone.high), abs=1e-12)
        assert estimate(mean, Bootstrap(10), ends=(0.25, 0.75)).low == 0.25


def test_the_mean_does_not_depend_on_the_order_of_the_questions() -> None:
    values = np.random.default_rng(6).exponential(size=1000)
    assert QuestionMean(values).value() == QuestionMean(np.sort(values)).value()


def test_seed_decides_the_replicates_and_the_intervals_of_percentiles() -> None:
    metrics = published_metrics(overconfident_rows(0.1))
    for name, metric in metrics.items():
        first, second, other = (estimate(metric, Bootstrap(200, seed=seed)) for seed in (4, 4, 5))
        assert np.array_equal(first.replicates, second.replicates), name
        assert not np.array_equal(first.replicates, other.replicates), name
        assert (first.low, first.high) == (second.low, second.high), name
        of_percentiles = name in ("ece", "adaptive_ce", "average_ce")
        assert ((first.low, first.high) != (other.low, other.high)) == of_percentiles, name
        assert first.low < first.high and (first.rows, first.questions) == (800, 40)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=2, max_size=20), st.randoms())
def test_a_ratio_is_that_of_its_sums_and_its_linearised_values_have_it_as_mean(
    rows: list[tuple[int, int]], random: Random
) -> None:
    sums, counts = np.array(rows, dtype=float).T
    ids = np.arange(len(rows))
    ratio = Ratio(sums, counts, ids)
    assert ratio.value() == pytest.approx(sums.sum() / counts.sum())
    assert ratio.linearised().mean() == pytest.approx(ratio.value(), abs=1e-12)
    low, high = ratio.interval()
    assert low <= ratio.value() <= high
    # A question that is drawn twice is two questions.
    times = np.array([random.randint(0, 2) for _ in rows]) + (ids == 0)
    repeated = Ratio(np.repeat(sums, times), np.repeat(counts, times), np.arange(times.sum()))
    assert ratio.values(times[None].astype(float))[0] == pytest.approx(repeated.value())
    # A small change of the weights changes the ratio as the mean of the linearised values.
    step = 1e-6 * np.array([random.uniform(-1, 1) for _ in rows])
    moved = ratio.values(1 + step[None])[0]
    assert moved == pytest.approx(np.average(ratio.linearised(), weights=1 + step), abs=1e-9)


def test_every_resample_draws_as_many_questions_as_there_are() -> None:
    weights = Bootstrap(50, seed=1).weights(7)
    assert weights.shape == (50, 7) and (weights.sum(axis=1) == 7).all()


def test_one_question_has_a_value_but_no_interval() -> None:
    found = estimate(row_mean([0.2, 0.4], [0, 0]), Bootstrap(10))
    assert found.value == pytest.approx(0.3) and np.isnan(found.low) and np.isnan(found.high)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: QuestionMean([]), "Each question needs one value"),
        (lambda: QuestionMean([1.0], ["a", "b"]), "Each question needs one value"),
        (lambda: QuestionMean([0.5, np.nan]), "Leave out rows without a value"),
        (lambda: QuestionMean([0.5, 0.5], ["a", "a"]), "occurs twice"),
        (lambda: Ratio([0.5, 0.5], [1, 1], ["a"]), "one sum and one count"),
    ],
)
def test_nothing_to_average_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_comparison_is_antisymmetric_and_a_cell_equals_itself() -> None:
    first, second = (published_metrics(overconfident_rows(offset)) for offset in (0.2, 0.05))
    bootstrap = Bootstrap(300, seed=2)
    for name in first:
        forth, back = (
            paired_difference(first[name], second[name], bootstrap),
            paired_difference(second[name], first[name], bootstrap),
        )
        assert forth.difference == pytest.approx(-back.difference)
        assert forth.low == pytest.approx(-back.high) and forth.p_value == back.p_value
        same = paired_difference(first[name], first[name], bootstrap)
        assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_one_question_has_a_difference_but_no_p_value() -> None:
    first, second = (published_metrics(overconfident_rows(offset, questions=1)) for offset in (0.1, 0.3))
    for name in first:
        alone = paired_difference(first[name], second[name], Bootstrap(10))
        assert alone.difference == first[name].value() - second[name].value()
        assert np.isnan([alone.low, alone.high, alone.p_value]).all()


def test_only_replicates_of_the_same_resamples_are_compared() -> None:
    drawn = np.zeros(10)
    for other in (Replicated(0.1, np.zeros(11), 5), Replicated(0.1, drawn, 5, "others")):
        with pytest.raises(ValueError, match="the same resamples on both sides"):
            replicated_difference(Replicated(0.1, drawn, 5), other)


def test_holm_on_the_textbook_example() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, np.nan, 0.6]), [1.0, np.nan, 1.0])


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_lies_between_raw_and_bonferroni(p_values: list[float]) -> None:
    raw, adjusted = np.array(p_values), holm(p_values)
    assert (adjusted >= raw).all() and (adjusted <= np.minimum(1, raw * max(1, len(raw)))).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()
