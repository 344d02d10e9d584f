"""Calibration metrics on 0/1 labels, against scikit-learn: values, and the time of their intervals.

python -m benchmarks.statistics.metrics_against_scikit_learn
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.harness.metrics.measured import statistic_of
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics

ROWS, QUESTIONS, BINS, REPLICATES, RESAMPLED = 20_000, 160, 10, 1000, 20


def with_scikit_learn(label: NDArray[np.int64], reward: NDArray[np.float64]) -> dict[str, float]:
    success, predicted = calibration_curve(label, reward, n_bins=BINS)
    gaps = np.abs(success - predicted)
    count = np.histogram(reward, BINS, (0, 1))[0]
    success, predicted = calibration_curve(label, reward, n_bins=BINS, strategy="quantile")
    return {
        "brier": float(brier_score_loss(label, reward)),
        "ece": float(np.average(gaps, weights=count[count > 0])),
        "average_ce": float(gaps.mean()),
        "adaptive_ce": float(np.abs(success - predicted).mean()),
    }


def main() -> None:
    generator = np.random.default_rng(0)
    question = np.repeat(np.arange(QUESTIONS), ROWS // QUESTIONS)
    reward = generator.random(ROWS)
    label = (generator.random(ROWS) < reward**2).astype(np.int64)

    rows = PrefixRows(reward, label, np.ones(ROWS, dtype=np.int64), question)
    bootstrap = Bootstrap(REPLICATES)
    peer = with_scikit_learn(label, reward)
    print(f"{ROWS} rows, {QUESTIONS} questions, {REPLICATES} replicates")
    print(f"{'metric':<14}{'here':>10}{'sklearn':>10}{'difference':>12}  95% interval")
    begun = time.perf_counter()
    for name, expected in peer.items():
        metric = metrics.create(name, **({} if name == "brier" else {"bins": BINS}))
        measured = statistic_of(metric, rows, bootstrap)
        assert measured is not None
        found = estimate(measured, bootstrap)
        difference = abs(found.value - expected)
        print(
            f"{name:<14}{found.value:10.6f}{expected:10.6f}{difference:12.1e}  {found.low:.4f} to {found.high:.4f}"
        )
        assert difference < 1e-12, name
    here = time.perf_counter() - begun

    begun = time.perf_counter()
    rows_of = [np.flatnonzero(question == index) for index in range(QUESTIONS)]
    for _ in range(RESAMPLED):
        drawn = np.concatenate([rows_of[index] for index in generator.integers(0, QUESTIONS, QUESTIONS)])
        with_scikit_learn(label[drawn], reward[drawn])
    there = (time.perf_counter() - begun) * REPLICATES / RESAMPLED
    print(
        f"the four intervals: {here:.2f} s; resampling rows and calling scikit-learn ({RESAMPLED} replicates measured, "
        f"{REPLICATES} extrapolated): {there:.1f} s, {there / here:.0f} times as long"
    )


if __name__ == "__main__":
    main()
