from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, RowMean, estimate
from prmcal.db.statistics.paired_differences import Replicated, holm, paired_difference, replicated_difference
from prmcal.harness.metrics.calibration import AdaptiveCE, calibration_metrics
from prmcal.harness.metrics.rows import PrefixRows


def overconfident_rows(offset: float, questions: int = 40, seed: int = 0) -> PrefixRows:
    generator = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), 20)
    p = generator.random(questions)[question]
    return PrefixRows(np.clip(p + offset, 0, 1), generator.binomial(8, p), np.full(len(p), 8), question)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    repetitions, questions, rows_each = 400, 100, 8
    question = np.repeat(np.arange(questions), rows_each)
    covered = covered_by_rows = 0
    for repetition in range(repetitions):
        # Rows of one question share an effect: that is what makes resampling single rows wrong.
        values = generator.exponential(size=questions)[question] + generator.normal(size=len(question))
        bootstrap = Bootstrap(400, seed=repetition)
        found = estimate(RowMean(values, question), bootstrap)
        covered += found.low <= 1 <= found.high
        if repetition < 100:
            naive = estimate(RowMean(values, np.arange(len(values))), bootstrap)
            covered_by_rows += naive.low <= 1 <= naive.high
    # 3 standard errors of the simulation, and one point for the percentile method's own shortfall.
    assert abs(covered / repetitions - 0.95) < 0.01 + 3 * np.sqrt(0.95 * 0.05 / repetitions)
    assert covered_by_rows / 100 < 0.8


def test_interval_of_a_mean_is_that_of_the_central_limit_theorem() -> None:
    values = np.random.default_rng(2).normal(size=2000)
    found = estimate(QuestionMean(values), Bootstrap(4000, seed=3))
    half = 1.96 * values.std() / np.sqrt(2000)
    assert found.low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.05 * half)


def test_seed_decides_the_interval() -> None:
    metrics = calibration_metrics(overconfident_rows(0.1))
    for name, metric in metrics.items():
        first, second, other = (estimate(metric, Bootstrap(200, seed=seed)) for seed in (4, 4, 5))
        assert (first.low, first.high) == (second.low, second.high), name
        assert (first.low, first.high) != (other.low, other.high), name
        assert first.low < first.high and (first.rows, first.questions) == (800, 40)


def test_every_resample_draws_as_many_questions_as_there_are() -> None:
    weights = Bootstrap(50, seed=1).weights(7)
    assert weights.shape == (50, 7) and (weights.sum(axis=1) == 7).all()


def test_adaptive_error_does_not_depend_on_how_replicates_are_chunked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metric = AdaptiveCE(overconfident_rows(0.1), 10)
    weights = Bootstrap(30, seed=6).weights(40)
    whole = metric.values(weights)
    monkeypatch.setattr("prmcal.harness.metrics.calibration._CHUNK_ELEMENTS", 7 * 800)
    np.testing.assert_array_equal(metric.values(weights), whole)


def test_one_question_has_a_value_but_no_interval() -> None:
    found = estimate(RowMean([0.2, 0.4], ["a", "a"]), Bootstrap(10))
    assert found.value == pytest.approx(0.3) and np.isnan(found.low) and np.isnan(found.high)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RowMean([], []), "no rows"),
        (lambda: QuestionMean([]), "no rows"),
        (lambda: RowMean([1.0], ["a", "b"]), "Each row needs one value and one question"),
        (lambda: QuestionMean([0.5, np.nan]), "Leave out rows without a value"),
        (lambda: QuestionMean([0.5, 0.5], ["a", "a"]), "occurs twice"),
        (lambda: Bootstrap(0), r"\[1, inf\)"),
    ],
)
def test_nothing_to_average_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_real_difference_is_found_and_pairing_finds_it() -> None:
    generator = np.random.default_rng(8)
    difficulty = generator.random(100)
    better = np.clip(difficulty + generator.normal(0.03, 0.05, 100), 0, 1)
    found = paired_difference(QuestionMean(better), QuestionMean(difficulty), Bootstrap(2000, seed=1))
    assert found.difference == pytest.approx(np.mean(better - difficulty))
    assert found.low > 0 and found.p_value < 0.01 and found.questions == 100
    # Unpaired, the spread of difficulty would drown it.
    apart = estimate(QuestionMean(difficulty), Bootstrap(2000))
    assert apart.high - apart.value > found.difference


def test_comparison_is_antisymmetric_and_a_cell_equals_itself() -> None:
    first, second = (calibration_metrics(overconfident_rows(offset)) for offset in (0.2, 0.05))
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


def test_p_values_are_uniform_where_there_is_no_difference() -> None:
    generator = np.random.default_rng(9)
    p_values = [
        paired_difference(
            QuestionMean(generator.normal(size=80)),
            QuestionMean(generator.normal(size=80)),
            Bootstrap(200, seed=seed),
        ).p_value
        for seed in range(400)
    ]
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 0.01 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.06)


def test_only_the_same_questions_are_compared() -> None:
    first, second = QuestionMean([0.1, 0.2], ["a", "b"]), QuestionMean([0.1, 0.2], ["a", "c"])
    with pytest.raises(ValueError, match="the same questions on both sides"):
        paired_difference(first, second, Bootstrap(10))


def test_one_question_has_a_difference_but_no_p_value() -> None:
    first, second = (calibration_metrics(overconfident_rows(offset, questions=1)) for offset in (0.1, 0.3))
    for name in first:
        alone = paired_difference(first[name], second[name], Bootstrap(10))
        assert alone.difference == first[name].value() - second[name].value()
        assert np.isnan([alone.low, alone.high, alone.p_value]).all() and alone.questions == 1


def test_only_replicates_of_the_same_resamples_are_compared() -> None:
    drawn = np.zeros(10)
    for other in (Replicated(0.1, np.zeros(11), 5), Replicated(0.1, drawn, 5, "others")):
        with pytest.raises(ValueError, match="the same resamples on both sides"):
            replicated_difference(Replicated(0.1, drawn, 5), other)


def test_holm_on_the_textbook_example() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, np.nan, 0.6]), [1.0, np.nan, 1.0])
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        holm([1.2])


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_lies_between_raw_and_bonferroni(p_values: list[float]) -> None:
    raw, adjusted = np.array(p_values), holm(p_values)
    assert (adjusted >= raw).all() and (adjusted <= np.minimum(1, raw * max(1, len(raw)))).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()
