from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from prmcal import Calibrator
from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError, UnknownPluginError
from prmcal.registry.contracts.calibrator import FitSupport
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.plugins import calibrators
from tests.arrays import Floats, Ints


class Quantiles(Calibrator):
    """Predicts rewards at three levels, and stores its calibration data."""

    reads = "hidden"
    grouped = True
    levels = (0.1, 0.5, 0.9)
    seen: ClassVar[list[Any]] = []

    def fit(self, features: HiddenStates, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        self.check_calibration_data(features, k, n)
        self.seen[:] = [features, k, n, questions, self.support]
        self.mean_ = float(k.sum() / n.sum())
        return self

    def predict(self, features: HiddenStates) -> Floats:
        rewards: Floats = expit(features.logit[:, None] + np.array([-1.0, 0.0, 1.0]))
        return rewards


@pytest.fixture
def quantiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Quantiles]]:
    monkeypatch.setattr(calibrators, "_registered", dict(calibrators._registered))
    calibrators.register("quantiles")(Quantiles)
    yield Quantiles
    Quantiles.seen.clear()


def conformal(wrapped: Any = "uncalibrated", **arguments: Any) -> Any:
    return calibrators.create("conformal", calibrator=wrapped, **arguments)


def states(logit: Any) -> HiddenStates:
    rows = np.arange(len(logit))
    return HiddenStates(np.zeros((len(logit), 2), dtype=np.float32), np.full(len(logit), -1), rows, np.asarray(logit))


def prefixes(size: int, seed: int = 0) -> tuple[Any, ...]:
    """Overconfident rewards, k of n, and the question of each prefix."""
    random = np.random.default_rng(seed)
    logit = random.normal(0.0, 1.5, size)
    n = np.full(size, 8)
    return expit(logit), random.binomial(n, expit(0.5 * logit - 0.5)), n, random.integers(0, size // 4, size)


def test_with_one_prefix_a_question_it_is_algorithm_1() -> None:
    reward, k, n, _ = prefixes(57)
    fitted = conformal(level=0.1, share=0.5, seed=3).fit_features(reward, k, n, questions=np.arange(57))
    numbers = np.random.default_rng(3).permutation(57)[: round(57 / 2)]
    scores = np.sort(reward[numbers] - k[numbers] / n[numbers])
    # The (1 - level)(1 + 1/K)-th empirical quantile of K scores is the ceil((1 - level)(K + 1))-th smallest.
    expected = scores[int(np.ceil(0.9 * (len(numbers) + 1))) - 1]
    assert fitted.held_out_ == 28 and fitted.correction_ == pytest.approx(expected)
    new = np.linspace(0, 1, 11)
    np.testing.assert_allclose(fitted.predict_at(new, fitted.levels)[:, 0], np.clip(new - expected, 0, new))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=20, max_size=60),
    st.sampled_from([0.1, 0.25, 0.5]),
    st.integers(0, 2**32 - 1),
)
def test_every_held_out_question_weighs_the_same(sizes: list[int], level: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    questions = np.repeat(np.arange(len(sizes)), sizes)
    n = np.full(len(questions), 4)
    reward, k = random.integers(0, 5, len(questions)) / 4, random.integers(0, 5, len(questions))
    fitted = conformal(level=level).fit_features(reward, k, n, questions=questions)
    held = np.random.default_rng(0).permutation(len(sizes))[: round(len(sizes) / 2)]
    weights = np.where(np.isin(questions, held), 1 / np.array(sizes)[questions], 0)

    def weight_up_to(score: float) -> float:
        return float(weights[reward - k / n <= score + 1e-12].sum())

    needed = (1 - level) * (len(held) + 1)
    assert fitted.held_out_ == len(held)
    assert weight_up_to(fitted.correction_) >= needed - 1e-9
    smaller = (reward - k / n)[reward - k / n < fitted.correction_ - 1e-12]
    assert not smaller.size or weight_up_to(smaller.max()) < needed


def test_questions_are_never_split_and_the_order_of_rows_does_not_matter(quantiles: type[Quantiles]) -> None:
    reward, k, n, questions = prefixes(200)
    fitted = conformal("quantiles").fit_features(states(reward), k, n, questions=questions)
    seen, _, _, groups, _ = Quantiles.seen
    rows = np.isin(questions, groups)
    np.testing.assert_array_equal(seen.logit, reward[rows])
    np.testing.assert_array_equal(groups, questions[rows])
    assert len(np.unique(groups)) + fitted.held_out_ == len(np.unique(questions))
    order = np.random.default_rng(1).permutation(200)
    again = conformal("quantiles").fit_features(states(reward[order]), k[order], n[order], questions=questions[order])
    assert again.correction_ == fitted.correction_


def test_another_seed_holds_out_other_questions_and_the_share_says_how_many() -> None:
    reward, k, n, questions = prefixes(400)
    found = {
        (share, seed): conformal(share=share, seed=seed).fit_features(reward, k, n, questions=questions)
        for share in (0.3, 0.5)
        for seed in (0, 1)
    }
    number = len(np.unique(questions))
    assert {key: each.held_out_ for key, each in found.items()} == {
        (share, seed): round(share * number) for share, seed in found
    }
    assert len({each.correction_ for each in found.values()}) == 4


def test_only_the_level_of_the_bound_is_corrected_and_quantiles_stay_ordered(
    quantiles: type[Quantiles],
) -> None:
    logit, k, n, _ = prefixes(300)
    plain = Quantiles().predict(states(logit))
    for level, column in ((0.1, 0), (0.05, 0), (0.5, 1), (0.9, 2)):
        for labels in (k, np.zeros_like(k), n):  # also labels that lower and raise the bound
            fitted = conformal("quantiles", level=level).fit_features(states(logit), labels, n)
            predicted = fitted.predict_at(states(logit), fitted.levels)
            assert fitted.levels == tuple(sorted({0.1, 0.5, 0.9, level}))
            assert predicted.shape == (300, len(fitted.levels))
            assert (np.diff(predicted, axis=1) >= 0).all()
            higher = [each for each in (0.1, 0.5, 0.9) if each > level]
            for each in higher:
                np.testing.assert_array_equal(
                    predicted[:, fitted.levels.index(each)], plain[:, (0.1, 0.5, 0.9).index(each)]
                )
            bound = np.clip(plain[:, column] - fitted.correction_, 0, 1)
            expected = np.minimum(bound, plain[:, (0.1, 0.5, 0.9).index(higher[0])]) if higher else bound
            np.testing.assert_array_equal(predicted[:, fitted.levels.index(level)], expected)


def test_a_point_estimate_is_kept_beside_its_bound() -> None:
    reward, k, n, questions = prefixes(400)
    fitted = conformal("isotonic").fit_features(reward, k, n, questions=questions)
    assert fitted.reads == "reward" and fitted.levels == (0.1, 0.5)
    rows = ~np.isin(questions, np.random.default_rng(0).permutation(np.unique(questions))[: fitted.held_out_])
    alone = calibrators.create("isotonic").fit_features(reward[rows], k[rows], n[rows])
    np.testing.assert_array_equal(fitted.predict_at(reward, [0.5]), alone.predict_at(reward, [0.5]))
    assert conformal("temperature").reads == "logit"


@pytest.mark.parametrize(("questions", "bounded"), [(1, False), (17, False), (18, True)])
def test_too_few_held_out_questions_give_a_bound_of_0_and_say_so(questions: int, bounded: bool) -> None:
    """9 held-out questions are the fewest for beta = 0.1."""
    said: list[str] = []
    calibrator = conformal(share=0.5)
    calibrator.support = FitSupport(report=said.append)
    n = np.full(questions, 8)
    calibrator.fit_features(np.full(questions, 0.75), np.full(questions, 4), n, questions=np.arange(questions))
    predicted = calibrator.predict_at(np.array([0.9]), [0.1, 0.5])
    np.testing.assert_allclose(predicted, [[0.65 if bounded else 0.0, 0.9]])
    message = f"{calibrator.held_out_} held-out questions are too few for level 0.1, so the bound is 0"
    assert said == ([] if bounded else [message])


def test_support_reaches_the_wrapped_calibrator(quantiles: type[Quantiles]) -> None:
    calibrator = conformal("quantiles")
    calibrator.support = FitSupport(report=print)
    logit, k, n, questions = prefixes(100)
    calibrator.fit_features(states(logit), k, n, questions=questions)
    assert Quantiles.seen[-1] is calibrator.support


def test_the_wrapped_calibrator_is_saved_and_loaded_too(tmp_path: Path) -> None:
    reward, k, n, questions = prefixes(300)
    wrapped = {"plugin": "histogram", "arguments": {"bins": 15}}
    fitted = conformal(wrapped).fit_features(reward, k, n, questions=questions)
    fitted.save(tmp_path / "fit")
    loaded = conformal(wrapped).load(tmp_path / "fit")
    assert loaded.predict_at(reward, loaded.levels).tobytes() == fitted.predict_at(reward, fitted.levels).tobytes()
    with pytest.raises(DataError, match="contains the calibrator 'histogram', not 'isotonic'"):
        conformal("isotonic").load(tmp_path / "fit")
    (tmp_path / "fit" / "wrapped" / "calibrator.json").unlink()
    with pytest.raises(DataError, match="does not contain a saved calibrator"):
        conformal(wrapped).load(tmp_path / "fit")


def test_its_identity_holds_the_wrapped_one(quantiles: type[Quantiles]) -> None:
    known = conformal("quantiles").identity()
    assert known["wrapped"] == calibrators.create("quantiles").identity() and known["wrapped"]["source"]
    assert json.dumps(known) != json.dumps(conformal("isotonic").identity())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"calibrator": "isotonc"}, UnknownPluginError, "Did you mean 'isotonic'"),
        ({"calibrator": "conformal"}, InvalidArgumentsError, "cannot wrap another one"),
        (
            {"calibrator": {"plugin": "conformal", "arguments": {"calibrator": "isotonic"}}},
            InvalidArgumentsError,
            "cannot wrap another one",
        ),
        ({"calibrator": {"name": "isotonic"}}, InvalidArgumentsError, "keys 'plugin' and 'arguments'"),
        ({"calibrator": {"plugin": "isotonic", "level": 0.1}}, InvalidArgumentsError, "keys 'plugin' and"),
        (
            {"calibrator": {"plugin": "histogram", "arguments": {"bins": 0}}},
            InvalidArgumentsError,
            "The 'bins' parameter of the calibrator 'histogram'",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        calibrators.create("conformal", **arguments)


def test_bad_calibration_data_is_refused() -> None:
    reward, k, n, questions = prefixes(20)
    with pytest.raises(ValueError, match="'questions' must have one entry per prefix: 20"):
        conformal().fit_features(reward, k, n, questions=questions[:5])
    with pytest.raises(ValueError, match="no prefixes to fit to"):
        conformal().fit_features(reward[:0], k[:0], n[:0], questions=questions[:0])
    with pytest.raises(PluginFailedError, match="is not fitted"):
        conformal("isotonic").predict(reward)
