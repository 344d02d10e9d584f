"""One score of a solution from the scores of its steps, as strategies, audits and Python read them."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from prmcal.arrays import Floats

Reading = Literal["last", "first", "min", "mean", "product"]
READINGS: tuple[Reading, ...] = get_args(Reading)
Aggregate = Literal["last", "first", "min", "product", "mean", "sum-logit"]


def read_steps(scores: Sequence[ArrayLike], reading: Reading = "last") -> Floats:
    """Return one score in [0, 1] for each solution, of shape (solutions,), from the scores of its steps.

    `scores` has the scores of each solution in [0, 1], from the first step to the last one, without the bare question.
    Solutions can have different numbers of steps, and have at least one. NaN stays NaN. `reading` says how: by the
    ``last`` or the ``first`` step, the smallest score (``min``), the ``mean`` or the ``product``. The right one depends
    on the meaning of the scores.

    >>> read_steps([[0.9, 0.2, 0.8], [0.5]], "min").tolist()
    [0.2, 0.5]

    Raises a ValueError if there is no such reading, a solution has no step, or a score is outside [0, 1].
    """
    if reading not in READINGS:
        raise ValueError(f"Scores of steps cannot be combined by {reading!r}. Choose {', '.join(READINGS)}.")
    solutions = [np.asarray(solution_scores, dtype=np.float64) for solution_scores in scores]
    if any(solution.ndim != 1 or not solution.size for solution in solutions):
        raise ValueError("Each solution must be a list with the score of at least one step.")
    flat = np.concatenate([*solutions, np.empty(0)])
    if ((flat < 0) | (flat > 1)).any():
        raise ValueError("A score of a step must be in [0, 1]. Turn log-odds into probabilities.")
    counts = np.array([solution.size for solution in solutions], dtype=np.intp)
    ends = counts.cumsum()
    starts = ends - counts
    if reading in ("last", "first"):
        return np.asarray(flat[ends - 1 if reading == "last" else starts])
    combined = {"min": np.minimum, "mean": np.add, "product": np.multiply}[reading].reduceat(flat, starts)
    return np.asarray(combined / counts if reading == "mean" else combined)


def aggregated(step_scores: Floats, scores: Floats, aggregate: Aggregate) -> Floats:
    """Return one score for each trajectory.

    Let r_1, ..., r_T be the rewards of the steps, and l_1, ..., l_T their log-odds. The reward of the trajectory is

    - last: r_T, the score of the whole trajectory;
    - first: r_1;
    - min: the smallest r_t;
    - product: r_1 x ... x r_T;
    - mean: (r_1 + ... + r_T) / T;
    - sum-logit: the reward with the log-odds l_1 + ... + l_T.

    The bare question (t = 0) does not count. With one step, all ways are equal. The right one depends on the meaning of
    the scores (Zhang et al., 2025, arXiv:2501.07301, table 13): the product suits probabilities that a step is correct.
    If a reward is a success probability, it already contains the later steps, so the last one is right. Product and
    sum-logit depend on the number of steps.

    `step_scores`, of shape (..., T + 1), are log-odds after t steps, with NaN after the last step of a trajectory.
    `scores`, of shape (...), are for the whole trajectory. A trajectory that is too long for the PRM is NaN, even if
    its first steps are not. The result is in log-odds. It has the shape of the scores, and is NaN where they are NaN. A
    trajectory without steps has its score.
    """
    if aggregate == "last":
        return scores
    steps = step_scores[..., 1:]
    there = ~np.isnan(steps)
    log_rewards, log_complements = log_expit(steps), log_expit(-steps)
    if aggregate == "first":
        aggregates = steps[..., 0] if steps.shape[-1] else scores
    elif aggregate == "min":
        aggregates = np.where(there, steps, np.inf).min(axis=-1, initial=np.inf)
    elif aggregate == "product":
        logs = np.where(there, log_rewards, 0.0).sum(axis=-1)
        with np.errstate(divide="ignore"):
            aggregates = logs - np.log(-np.expm1(logs))
    elif aggregate == "mean":
        log_sums = [
            np.logaddexp.reduce(np.where(there, logs, -np.inf), axis=-1, initial=-np.inf)
            for logs in (log_rewards, log_complements)
        ]
        with np.errstate(invalid="ignore"):  # There may be no step.
            aggregates = log_sums[0] - log_sums[1]
    else:
        aggregates = np.where(there, steps, 0.0).sum(axis=-1)
    # The score of an only step is not rounded.
    only = np.where(there.any(axis=-1), np.where(there, steps, 0.0).sum(axis=-1), scores)
    return np.where(np.isnan(scores), np.nan, np.where(there.sum(axis=-1) > 1, aggregates, only))
