"""Statistics and answers: paired tests against SciPy, metrics against scikit-learn, verdicts against math-verify."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from benchmarks.measuring import Figure, measured, version
from prmcal.arrays import Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.statistics.paired import PairedDifferences, Replicated, replicated_differences
from prmcal.harness.metrics.measured import statistic_of
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.grading import grade_answer
from prmcal.registry.plugins import metrics

_BINS, _RESAMPLED = 10, 5
PAIRS = Path(__file__).parents[1] / "tests" / "registry" / "grading" / "pairs.csv"


def paired_tests(tiny: bool) -> Figure:
    """Test all pairs of some cells on the same questions, from their values of each question on.

    The standard error is that of a bootstrap, so p values agree with those of t tests up to its noise.
    """
    cells, questions, bootstrap = (5, 50, Bootstrap(2000)) if tiny else (40, 500, Bootstrap(2000))
    random = np.random.default_rng(0)
    values = (
        random.normal(0, 1, (cells, 1)) / 20
        + random.normal(0, 0.3, questions)
        + random.normal(0, 0.3, (cells, questions))
    )
    first, second = np.triu_indices(cells, 1)

    def all_pairs() -> PairedDifferences:
        weights = bootstrap.weights(questions)
        means = [QuestionMean(row) for row in values]
        return replicated_differences(
            [Replicated(mean.value(), mean.values(weights), questions) for mean in means], first, second
        )

    seconds, tests = measured(all_pairs)
    pairs = list(zip(first, second, strict=True))
    peer_seconds, expected = measured(lambda: [ttest_rel(values[a], values[b]) for a, b in pairs])
    half = np.array([np.ptp(test.confidence_interval()) / 2 for test in expected])
    assert np.allclose(tests.difference, (values[first] - values[second]).mean(axis=1), atol=1e-12), "equal differences"
    assert np.allclose((tests.high - tests.low) / 2, half, rtol=0.1), "equal standard errors, up to resampling"
    return Figure(
        f"{len(pairs)} paired tests of {cells} cells on {questions} questions",
        seconds,
        f"`ttest_rel` of {version('scipy')} for each pair",
        peer_seconds,
        f"intervals agree to {np.abs((tests.high - tests.low) / 2 / half - 1).max():.0%}",
    )


def _with_scikit_learn(label: Ints, reward: Floats) -> dict[str, float]:
    """Return the metrics of labels 0 and 1 by scikit-learn."""
    success, predicted = calibration_curve(label, reward, n_bins=_BINS)
    gaps = np.abs(success - predicted)
    count = np.histogram(reward, _BINS, (0, 1))[0]
    success, predicted = calibration_curve(label, reward, n_bins=_BINS, strategy="quantile")
    return {
        "brier": float(brier_score_loss(label, reward)),
        "ece": float(np.average(gaps, weights=count[count > 0])),
        "average_ce": float(gaps.mean()),
        "adaptive_ce": float(np.abs(success - predicted).mean()),
    }


def intervals_of_metrics(tiny: bool) -> Figure:
    """Compute four metrics with their intervals, against the same from resampled rows."""
    rows, questions, bootstrap = (500, 20, Bootstrap(1000)) if tiny else (20_000, 160, Bootstrap(1000))
    random = np.random.default_rng(0)
    question, reward = np.repeat(np.arange(questions), rows // questions), random.random(rows)
    label = (random.random(rows) < reward**2).astype(np.int64)

    def here() -> dict[str, float]:
        prefixes = PrefixRows(reward, label, np.ones(rows, dtype=np.int64), question)
        values = {}
        for name in ("brier", "ece", "average_ce", "adaptive_ce"):
            metric = metrics.create(name, **({} if name == "brier" else {"bins": _BINS}))
            statistic = statistic_of(metric, prefixes, bootstrap)
            assert statistic is not None
            values[name] = estimate(statistic, bootstrap).value
        return values

    def there() -> None:
        for _ in range(_RESAMPLED):
            drawn = np.concatenate(
                [np.flatnonzero(question == index) for index in random.integers(0, questions, questions)]
            )
            _with_scikit_learn(label[drawn], reward[drawn])

    (seconds, values), (peer_seconds, _) = measured(here), measured(there)
    for name, expected in _with_scikit_learn(label, reward).items():
        assert abs(values[name] - expected) < 1e-12, f"the values of {name} are equal"
    return Figure(
        f"4 metrics of {rows:,} prefixes, with intervals of {bootstrap.replicates:,} resamples",
        seconds,
        f"{version('scikit-learn')} on {_RESAMPLED} resamples, times {bootstrap.replicates // _RESAMPLED}",
        peer_seconds * bootstrap.replicates / _RESAMPLED,
        "the values agree to 1e-12",
    )


def labelled_pairs() -> list[dict[str, str]]:
    """Return the pairs of answers that the project has labelled: kind, label, answer and reference."""
    with PAIRS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_prmcal(pairs: list[dict[str, str]]) -> list[bool]:
    """Return whether prmcal takes each pair for equal."""
    return [grade_answer(pair["answer"], pair["reference"]) == "correct" for pair in pairs]


def by_math_verify(pairs: list[dict[str, str]]) -> list[bool]:
    """Return whether math-verify, with its own options, takes each pair for equal."""
    from math_verify import parse, verify

    logging.disable()
    try:
        parsed = [[parse(f"${pair[name]}$") for name in ("reference", "answer")] for pair in pairs]
        return [bool(verify(*answers)) for answers in parsed]
    finally:
        logging.disable(logging.NOTSET)


def answers(tiny: bool) -> Figure:
    """Compare labelled pairs of answers, which are hard on purpose."""
    from prmcal.registry.grading import rules

    pairs = labelled_pairs()[:: 150 if tiny else 4]

    def here() -> list[bool]:
        verdicts = by_prmcal(pairs)
        rules._COMPARER.close()  # So that its seconds count.
        return verdicts

    (seconds, ours), (peer_seconds, theirs) = measured(here), measured(lambda: by_math_verify(pairs))
    labels = [pair["label"] == "equal" for pair in pairs]
    right, peer_right = (float(np.mean(np.equal(verdicts, labels))) for verdicts in (ours, theirs))
    assert right > 0.98, "the verdicts are those of the labels"
    return Figure(
        f"verdicts on {len(pairs):,} hard pairs of answers",
        seconds,
        version("math-verify"),
        peer_seconds,
        f"{right:.1%} of the verdicts are right, of math-verify's {peer_right:.1%}",
    )


BENCHMARKS = (paired_tests, intervals_of_metrics, answers)
