"""Calibrators, metrics and rules for arrays: equal to what scikit-learn defines, and usable as its estimators."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as peer
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from prmcal import calibrators, metrics, rules
from prmcal.arrays import Floats, Ints
from prmcal.errors import InvalidArgumentsError, InvalidPluginError, PluginFailedError
from prmcal.log_odds import log_odds
from prmcal.registry.plugins import calibrators as plugins

ALL = [
    calibrators.Isotonic(),
    calibrators.Histogram(bins=5),
    calibrators.Histogram(strategy="quantile"),
    calibrators.Platt(),
    calibrators.Beta(),
    calibrators.Temperature(),
    calibrators.Conformal("platt", level=0.2),
    calibrators.Conformal(level=0.8),
]


@pytest.fixture(scope="module")
def rows() -> tuple[Floats, Ints, Ints]:
    """Scores that are too high, labels, and 100 questions of 4 rows."""
    random = np.random.default_rng(0)
    scores = random.uniform(0.01, 0.99, 400)
    return scores, (random.random(400) < scores**2).astype(np.int64), np.repeat(np.arange(100), 4)


@pytest.mark.parametrize("module", [calibrators, metrics, rules])
def test_the_examples_are_right(module: ModuleType) -> None:
    tests = doctest.testmod(module)
    assert tests.attempted > 1
    assert tests.failed == 0


def test_importing_loads_no_heavy_library() -> None:
    code = "import sys, prmcal.calibrators; print(*{'torch', 'sklearn', 'pandas', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_metrics_equal_those_of_scikit_learn(rows: tuple[Floats, Ints, Ints]) -> None:
    scores, right, questions = rows
    assert metrics.brier(scores, right).value == pytest.approx(peer.brier_score_loss(right, scores), rel=1e-12)
    assert metrics.log_loss(scores, right).value == pytest.approx(peer.log_loss(right, scores), rel=1e-12)
    mixed = [question for question in range(100) if 0 < right[questions == question].sum() < 4]
    areas = [peer.roc_auc_score(right[questions == question], scores[questions == question]) for question in mixed]
    assert metrics.auroc_within(scores, right, groups=questions).value == pytest.approx(np.mean(areas), rel=1e-12)
    table = metrics.reliability(scores, right, groups=questions)
    share, mean = calibration_curve(right, scores, n_bins=10)
    assert table["mean_success"].to_numpy() == pytest.approx(share, rel=1e-12)
    assert table["mean_reward"].to_numpy() == pytest.approx(mean, rel=1e-12)
    error = float((table["count"] * np.abs(share - mean)).sum() / 400)
    assert metrics.ece(scores, right, groups=questions).value == pytest.approx(error, rel=1e-12)


def test_a_chart_has_the_points_of_each_table(rows: tuple[Floats, Ints, Ints]) -> None:
    scores, right, questions = rows
    before = metrics.reliability(scores, right, groups=questions, bins=5)
    chart = metrics.reliability_chart(before=before, after=before.head(2)).to_dict()
    points = [
        point for data in chart["datasets"].values() for point in data if "right_low" in point and "bar" not in point
    ]
    assert [point["series"] for point in points] == ["before"] * 5 + ["after"] * 2
    assert [point["right"] for point in points[:5]] == before["mean_success"].tolist()


def test_rows_of_one_question_are_one_piece_of_evidence(rows: tuple[Floats, Ints, Ints]) -> None:
    """The same rows four times over, as one question each, say no more than once."""
    scores, right, _ = rows
    once = metrics.signed_error(scores, right)
    copied = metrics.signed_error(np.repeat(scores, 4), np.repeat(right, 4), groups=np.repeat(np.arange(400), 4))
    assert copied.n == 400
    assert (copied.value, copied.low, copied.high) == pytest.approx((once.value, once.low, once.high))
    assert repr(once).endswith("(400 questions)")


def test_a_comparison_is_paired(rows: tuple[Floats, Ints, Ints]) -> None:
    scores, right, questions = rows
    better = metrics.compare(scores**2, scores, right, groups=questions)
    apart = metrics.brier(scores**2, right, groups=questions), metrics.brier(scores, right, groups=questions)
    assert better.value == pytest.approx(apart[0].value - apart[1].value)
    assert better.high < 0 and better.p_value < 0.01
    assert better.high - better.low < min(value.high - value.low for value in apart)
    same = metrics.compare(scores, scores, right, groups=questions)
    assert (same.value, same.p_value) == (0, 1)
    # Errors of opposite signs are equally far from 0, the best value.
    opposite = metrics.compare([0.6, 0.7], [0.4, 0.3], [1, 1], n=2, metric=metrics.signed_error)
    assert opposite.value == pytest.approx(0)


@pytest.mark.parametrize(
    ("k", "n", "words"),
    [([0.5, 1], 1, "whole numbers"), ([2, 0], 1, "k successes"), ([1], 1, "shape"), ([1, 0], 1, "not defined")],
)
def test_what_cannot_be_measured_is_said(k: list[float], n: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        metrics.brier_corrected([0.3, 0.4], k, n)


def test_a_class_whose_fit_a_grid_would_not_call_is_refused() -> None:
    with pytest.raises(InvalidPluginError, match="Define 'fit_features' and 'predict_at' instead"):
        type("Mine", (calibrators.Isotonic,), {"fit": lambda self, features, k, n: self})


@pytest.mark.parametrize("calibrator", ALL, ids=repr)
def test_calibrators_are_estimators_of_scikit_learn(
    calibrator: calibrators.Isotonic, rows: tuple[Floats, Ints, Ints]
) -> None:
    scores, right, questions = rows
    copy = clone(calibrator)
    assert copy.get_params() == calibrator.get_params() and repr(copy) == repr(calibrator)
    folds = GroupKFold(5)
    predicted = cross_val_predict(copy, scores[:, None], right, groups=questions, cv=folds)
    for train, test in folds.split(scores, right, questions):
        alone = clone(calibrator).fit(scores[train], right[train])
        assert alone.predict(scores[test]) == pytest.approx(predicted[test], abs=1e-12)
    pipeline = make_pipeline(FunctionTransformer(np.square), copy).fit(scores[:, None], right)
    assert pipeline.predict(scores[:, None]) == pytest.approx(clone(copy).fit(scores**2, right).predict(scores**2))
    logits = clone(calibrator).set_params(logit=True).fit(log_odds(scores), right)
    assert logits.predict(log_odds(scores)) == pytest.approx(clone(copy).fit(scores, right).predict(scores), abs=1e-9)


@pytest.mark.filterwarnings("ignore:Estimator .* does not inherit")
@pytest.mark.parametrize("calibrator", ALL, ids=repr)
def test_checks_of_scikit_learn_that_need_no_matrix_pass(calibrator: Any) -> None:
    """The others fit to several columns of any numbers, or to labels that are no counts."""
    checks = {getattr(check, "func", check).__name__: check for _, check in estimator_checks_generator(calibrator)}
    for name in (
        *("check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init", "check_set_params"),
        *("check_do_not_raise_errors_in_init_or_set_params", "check_parameters_default_constructible"),
        *("check_get_params_invariance", "check_valid_tag_types", "check_fit1d"),
    ):
        checks[name](calibrator)


@pytest.mark.parametrize("calibrator", ALL, ids=repr)
def test_a_calibrator_is_the_plugin_of_a_grid(calibrator: Any, rows: tuple[Floats, Ints, Ints], tmp_path: Path) -> None:
    scores, right, questions = rows
    name = type(calibrator).__name__.lower()
    arguments = {name: value for name, value in calibrator.get_params().items() if name != "logit"}
    plugin = plugins.create(name, **arguments)
    assert type(plugin) is type(calibrator) and plugin.arguments == arguments
    features = log_odds(scores) if plugin.reads == "logit" else scores
    plugin.fit_features(features, right, np.ones_like(right), questions).save(tmp_path)
    rewards = plugin.predict_at(features, [arguments.get("level", 0.5)])[:, 0]
    assert np.array_equal(clone(calibrator).load(tmp_path).predict(scores), rewards)
    clone(calibrator).fit(scores, right, groups=[f"q{number:03}" for number in questions]).save(tmp_path)
    assert np.array_equal(plugins.create(name, **arguments).load(tmp_path).predict(scores), rewards)


def test_mistakes_of_calibrators_are_said() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        calibrators.Platt().fit([0.5, 0.6], [0.5, 1.0])
    with pytest.raises(PluginFailedError, match="not fitted"):
        calibrators.Platt().predict([0.5])
    with pytest.raises(InvalidArgumentsError, match="bins"):
        calibrators.Histogram(bins=0).fit([0.5], [1])
    with pytest.raises(ValueError, match=r"has no parameter 'bin'. It has: bins, strategy, logit"):
        calibrators.Histogram().set_params(bin=3)
    for calibrator in (calibrators.Isotonic(), calibrators.Platt()):
        with pytest.raises(ValueError, match=r"score must be in \[0, 1\].*set logit=True"):
            calibrator.fit([1.5], [1])
    with pytest.raises(PluginFailedError, match="reads 'hidden' needs a PRM"):
        calibrators.Conformal("beta-binomial").fit([0.5], [1])
    changed = calibrators.Conformal("beta-binomial").set_params(calibrator="platt")
    assert changed.fit([0.5] * 4, [1] * 4).predict([0.5]) == 0


def test_log_odds_stay_log_odds_when_they_are_loaded(rows: tuple[Floats, Ints, Ints], tmp_path: Path) -> None:
    scores, right, questions = rows
    fitted = calibrators.Platt(logit=True).fit(log_odds(scores), right)
    fitted.save(tmp_path)
    assert np.array_equal(calibrators.Platt().load(tmp_path).predict([0.5]), fitted.predict([0.5]))
    with pytest.raises(ValueError, match="'groups' must have one entry per row: 400"):
        fitted.fit(log_odds(scores), right, groups=questions[:3])
