"""Chances: numbers that honest samples have with a negligible probability only.

Three numbers of a question estimate the same chance of success, without bias: the share of correct trajectories, the
share of correct follow-ups of the bare question, and the mean over trajectories of the success rate after t steps, for
any fixed t (the rate of a trajectory with fewer steps stays what it is at its end).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.paired_differences import holm
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import SuccessParameters
from prmcal.harness.verifying.context import VerifyingContext
from prmcal.harness.verifying.findings import Flaw, concluded, not_made
from prmcal.harness.verifying.record import Check
from prmcal.harness.verifying.subject import Subject

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEVEL", "check_chances", "difference_along_steps", "same_chance"]

LEVEL = 1e-5
"""The largest probability that a check of an honest bundle fails by chance: p values are adjusted by Holm's method."""

_MARGIN = 0.03
"""Follow-ups may have more tokens than what is left to the trajectory, and their prompt may be cut into other tokens.
So success rates along the steps may differ by a little in honest runs."""
_MOST_CUT_OFF = 0.01
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Compared:
    """Two estimates of one mean over questions.

    Attributes
    ----------
    one, other : float
    p_value : float
    found : float
        The smallest difference that is found with a probability of 80%.
    questions : int
    """

    one: float
    other: float
    p_value: float
    found: float
    questions: int


def check_chances(subject: Subject) -> Iterator[Check]:
    """Compare pass@1 with the success rates of bare questions, and these with the success rates along the steps."""
    context = VerifyingContext(subject.store, subject.plan.datasets)
    plugins = {each.name: each.identity.get("plugin") for each in subject.plan.plugins["llm"]}
    jobs = [
        job
        for job in subject.plan.jobs_of(SuccessParameters)
        if subject.present(job)
        and all(map(subject.present, job.inputs))
        and plugins.get(job.labels.llm) != "recorded"  # Its follow-ups may come from elsewhere.
    ]
    bare, along = {}, {}
    for job in jobs:
        trajectories = context.tables(job.inputs[0].refs, "trajectories")
        counts = context.tables(job.refs, "successes")
        if (trajectories["finish_reason"].isin(["length", "thought"])).mean() <= _MOST_CUT_OFF and not any(
            shard.parameters.most_prefixes for shard in job.shards
        ):
            along[job.key] = job, difference_along_steps(trajectories, counts)
        drawn = trajectories.groupby("question_id")["correct"].agg(["sum", "count"])
        first = counts[counts["step"] == 0].groupby("question_id")[["successes", "follow_ups"]].sum()
        both = drawn.join(first, how="inner")
        bare[job.key] = job, same_chance(*(both[name].to_numpy(np.int64) for name in both))
    yield _concluded(subject, "pass@1 and success of bare questions", bare)
    yield _concluded(subject, "success along the steps", along)


def _concluded(
    subject: Subject, name: str, found: dict[str, tuple[Job[SuccessParameters], Compared | None]]
) -> Check:
    made = [(job, each) for job, each in found.values() if each is not None]
    if not made:
        return not_made("consistent", name, "there are no counts that can be compared, or texts are cut off.")
    adjusted = holm([each.p_value for _, each in made])
    flaws = [
        Flaw(
            f"{job.labels}: {each.one:.3f} of the trajectories are correct, and {each.other:.3f} of the follow-ups "
            f"(adjusted p = {p:.1g} over {each.questions} questions)",
            job.refs + job.inputs[0].refs,
        )
        for (job, each), p in zip(made, adjusted, strict=True)
        if p < LEVEL
    ]
    smallest = max(each.found for _, each in made)
    passed = (
        f"They agree for {len(made)} pairs of LLM and questions (level {LEVEL:g}). A difference of {smallest:.2f} "
        "would have been found in each with 80% power."
    )
    return concluded(subject, "consistent", name, sum(each.questions for _, each in made), flaws, passed)


def same_chance(
    c: NDArray[np.int64],
    m: NDArray[np.int64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    level: float = LEVEL,
) -> Compared | None:
    """Test whether c of m and k of n have the same chance in each question.

    Given c + k, the count c of a question has a hypergeometric distribution, and the questions are independent. So the
    sum of c has a known distribution, and the test is exact: it is Cochran, Mantel and Haenszel's.

    Parameters
    ----------
    c, m, k, n : ndarray of shape (questions,)
    level : float
        The level of the test, for the smallest difference that it finds with 80% power.

    Returns
    -------
    Compared or None
        None if there are no questions.
    """
    if not len(c):
        return None
    distribution, offset = np.ones(1), 0
    for own_c, own_m, own_k, own_n in zip(c, m, k, n, strict=True):
        right = own_c + own_k
        low, high = max(0, right - own_n), min(own_m, right)
        ways = _log_ways(own_m, np.arange(low, high + 1)) + _log_ways(own_n, right - np.arange(low, high + 1))
        distribution = np.convolve(distribution, np.exp(ways - _log_ways(own_m + own_n, right)))
        offset += low
    place = int(c.sum()) - offset
    p_value = min(1.0, 2 * min(distribution[: place + 1].sum(), distribution[place:].sum()))
    pooled = (c + k + 1) / (m + n + 2)
    error = float(np.sqrt(np.sum(pooled * (1 - pooled) * (1 / m + 1 / n)))) / len(c)
    found = _deviations(level) * error
    return Compared(float(np.mean(c / m)), float(np.mean(k / n)), float(p_value), found, len(c))


def difference_along_steps(trajectories: pd.DataFrame, counts: pd.DataFrame) -> Compared | None:
    """Test whether the mean success rate of the first steps is the share of correct trajectories, but for a margin.

    The steps are the first L, where L is the median number of steps. It is a t test over questions.

    Parameters
    ----------
    trajectories, counts : DataFrame
        The tables of a rollout and of its success counts.
    """
    from scipy.special import stdtr

    rates = counts.groupby(["question_id", "trajectory", "step"])[["successes", "follow_ups"]].sum()
    table = (rates["successes"] / rates["follow_ups"]).unstack("step").ffill(axis=1)
    own = trajectories.set_index(["question_id", "trajectory"])["steps"]
    longest = max(1, int(own.reindex(table.index).median()))
    along = table[[step for step in table.columns if 1 <= step <= longest]].mean(axis=1)
    correct = trajectories.groupby("question_id")["correct"].mean()
    by_question = along.groupby("question_id").mean()
    difference = (by_question - correct.reindex(by_question.index)).to_numpy(np.float64)
    questions = len(difference)
    if questions < 3:
        return None
    error = float(difference.std(ddof=1)) / np.sqrt(questions)
    beyond = max(abs(float(difference.mean())) - _MARGIN, 0.0)
    p_value = 1.0 if beyond == 0 else float(2 * stdtr(questions - 1, -beyond / error)) if error else 0.0
    found = _MARGIN + _deviations(LEVEL) * error
    return Compared(float(correct.mean()), float(by_question.mean()), min(1.0, p_value), found, questions)


# `scipy.stats` has these distributions too, but takes a second to import.
def _log_ways(n: int, k: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return ln C(n, k)."""
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(np.asarray(k) + 1) - gammaln(n - np.asarray(k) + 1))


def _deviations(level: float) -> float:
    """Return the true difference, in standard errors, that a two-sided normal test finds with 80% power."""
    from scipy.special import ndtri

    return float(ndtri(_POWER) - ndtri(level / 2))
