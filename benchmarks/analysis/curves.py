"""All exact curves of accuracy against budget of a grid, against random trials for each of their points.

python -m benchmarks.analysis.curves

The grid has 500 questions, 64 samples, 24 settings (8 values of C, 3 levels) and 6 calibrators. The exact curves
include areas and 95% intervals from 2,000 resamples. Then the usual 100 random trials estimate some of the points.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.harness.jobs.curves import (
    TARGETS,
    adaptive_curve,
    area_under,
    fixed_curve,
)
from prmcal.registry.contracts.strategy import SWEPT_TARGETS
from prmcal.registry.strategies.best_of import best_of_each
from prmcal.registry.strategies.scaling import adaptive_samples

QUESTIONS, POOL, LEVELS, CALIBRATORS, TRIALS = 500, 64, 3, 6, 100


def trial(
    scores: NDArray[np.float64],
    correct: NDArray[np.bool_],
    samples: NDArray[np.int64],
    random: np.random.Generator,
) -> float:
    """Return the accuracy of one random draw of samples per question."""
    order = np.argsort(random.random(scores.shape), axis=1)
    late = np.arange(POOL) >= samples[:, None]
    best = np.where(late, -np.inf, np.take_along_axis(scores, order, axis=1)).argmax(axis=1)
    return float(correct[np.arange(QUESTIONS), order[np.arange(QUESTIONS), best]].mean())


def main() -> None:
    random = np.random.default_rng(0)
    chance = random.beta(0.6, 0.8, QUESTIONS)
    correct = random.random((QUESTIONS, POOL)) < chance[:, None]
    scores = np.round(random.normal(correct.astype(float), 0.7), 1)
    rewards = np.clip(chance + random.normal(0, 0.2, (CALIBRATORS * LEVELS, QUESTIONS)), 0, 1)

    bootstrap = Bootstrap(replicates=2000)
    begun = time.perf_counter()
    table = best_of_each(scores, correct, POOL)
    ends = fixed_curve(table, [1, POOL])
    curves = [adaptive_curve(table, reward, TARGETS) for reward in rewards]
    for curve in curves:
        curve.columns("samples")
    dense = [adaptive_curve(table, reward, SWEPT_TARGETS) for reward in rewards]
    areas = [area_under(ends, curve, POOL, bootstrap) for curve in dense]
    exact = time.perf_counter() - begun
    points = len(curves) * len(TARGETS)
    print(f"{points} points with intervals and {len(areas)} areas, exactly: {exact:.2f} s")

    begun, errors = time.perf_counter(), []
    for curve, reward in zip(curves[:2], rewards, strict=False):
        for target, value in zip(TARGETS, curve.accuracy, strict=True):
            samples = adaptive_samples(reward, target, POOL)
            drawn = [trial(scores, correct, samples, random) for _ in range(TRIALS)]
            errors.append((np.mean(drawn) - value) / (np.std(drawn, ddof=1) / np.sqrt(TRIALS)))
    seconds = (time.perf_counter() - begun) * points / len(errors)
    print(
        f"{TRIALS} trials of every point, no intervals: {seconds:.1f} s, extrapolated from {len(errors)} points"
    )
    spread = np.sqrt(np.mean(np.square(errors)))
    print(f"difference: root mean square {spread:.2f} standard errors; the expected value is about 1")


if __name__ == "__main__":
    main()
