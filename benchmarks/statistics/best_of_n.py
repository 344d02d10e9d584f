"""Exact best-of-n, against the usual 100 random trials: means and times.

python -m benchmarks.statistics.best_of_n
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.strategies.best_of import best_of_n

QUESTIONS, POOL, TRIALS, REPEATS = 500, 64, 100, 5
COUNTS = [1, 2, 4, 8, 16, 32, 63]

Trials = Callable[
    [NDArray[np.float64], NDArray[np.bool_], list[int], np.random.Generator], NDArray[np.float64]
]


def trials_one_by_one(
    scores: NDArray[np.float64], correct: NDArray[np.bool_], counts: list[int], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean accuracy of each trial (trials, counts), with a loop over questions."""
    accuracy = np.zeros((TRIALS, len(counts)))
    for trial in range(TRIALS):
        for column, n in enumerate(counts):
            for question in range(len(scores)):
                drawn = generator.choice(scores.shape[1], n, replace=False)
                accuracy[trial, column] += correct[question, drawn[np.argmax(scores[question, drawn])]]
    return accuracy / len(scores)


def trials_vectorised(
    scores: NDArray[np.float64], correct: NDArray[np.bool_], counts: list[int], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return the same with vectorised operations: shuffle the samples of all questions, and use the first n."""
    accuracy = np.zeros((TRIALS, len(counts)))
    for trial in range(TRIALS):
        order = np.argsort(generator.random(scores.shape), axis=1)
        shuffled = np.take_along_axis(scores, order, axis=1)
        graded = np.take_along_axis(correct, order, axis=1)
        for column, n in enumerate(counts):
            best = np.argmax(shuffled[:, :n], axis=1)
            accuracy[trial, column] = graded[np.arange(len(scores)), best].mean()
    return accuracy


def main() -> None:
    generator = np.random.default_rng(0)
    chance = generator.beta(0.6, 0.8, QUESTIONS)[:, None]
    correct = generator.random((QUESTIONS, POOL)) < chance
    # Rewards are multiples of 1/20, which gives many ties.
    noise = generator.normal(0, 0.25, correct.shape)
    scores = np.round(np.clip(0.35 + 0.3 * correct + noise, 0, 1) * 20) / 20

    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        exact = best_of_n(scores, correct, COUNTS).mean(axis=0)
        times.append(time.perf_counter() - begun)
    exact_time = float(np.median(times))
    print(f"{QUESTIONS} questions, pool of {POOL}, n = {', '.join(map(str, COUNTS))}")
    print(f"{'exact':<22}{exact_time * 1e3:10.1f} ms")
    methods: list[tuple[str, Trials]] = [
        ("100 trials", trials_one_by_one),
        ("100 trials, vectorised", trials_vectorised),
    ]
    for name, method in methods:
        begun = time.perf_counter()
        accuracy = method(scores, correct, COUNTS, generator)
        elapsed = time.perf_counter() - begun
        print(f"{name:<22}{elapsed * 1e3:10.1f} ms: exact is {elapsed / exact_time:.0f} times faster")
        error = accuracy.std(axis=0, ddof=1) / np.sqrt(TRIALS)
        print("     n     exact    trials  difference in standard errors")
        for n, value, mean, deviation in zip(COUNTS, exact, accuracy.mean(axis=0), error, strict=True):
            print(f"{n:6d}{value:10.4f}{mean:10.4f}{(mean - value) / deviation:10.1f}")
        spread = np.sqrt(np.mean(((accuracy.mean(axis=0) - exact) / error) ** 2))
        print(f"root mean square {spread:.1f} standard errors; the expected value is about 1")


if __name__ == "__main__":
    main()
