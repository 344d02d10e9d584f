"""Reproduced: own samples of some questions have the same chance of success as those of the submission.

All tests are exact and stratified by question, so they are paired; see :func:`same_chance`. Holm's method adjusts the
p values over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.paired import holm
from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import RolloutParameters, SuccessParameters
from prmcal.harness.jobs.plugin_calls import check_completions, in_steps, plugin_guard
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verifying.drawing import drawing
from prmcal.harness.verifying.findings import Flaw, concluded, not_made
from prmcal.harness.verifying.repeated.models import ModelContext, unlike
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.contracts.data import Prefix, Question
from prmcal.registry.messages import excerpt
from prmcal.registry.network import patiently
from prmcal.steps import split_steps, text_so_far

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DRAWS", "LEVEL", "check_reproduction", "same_chance", "sampled_jobs"]

LEVEL = 0.001
"""The largest probability that an honest submission fails this tier by chance."""
DRAWS = 8
"""Own samples of each bare question, and own follow-ups of each prefix."""


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


@dataclass(frozen=True, slots=True)
class Made:
    """A comparison of own samples with those of a submission."""

    what: str
    refs: tuple[ArtifactRef, ...]
    compared: Compared


def sampled_jobs(subject: Subject) -> list[Job[RolloutParameters]]:
    """Return the rollouts that are here, each once."""
    jobs = {job.key: job for job in subject.plan.jobs_of(RolloutParameters) if subject.present(job)}
    return list(jobs.values())


def check_reproduction(
    subject: Subject, context: ModelContext, questions: int, seed: int, report: Callable[[str], None]
) -> Iterator[Check]:
    """Sample some questions and prefixes again with a fresh seed, and compare the chances of success.

    Parameters
    ----------
    subject : Subject
    context : ModelContext
    questions : int
        Questions that are drawn of each LLM and split.
    seed : int
        The seed of the verification, which the submitter does not know.
    report : callable
        Takes a line about the progress.
    """
    made: list[Made] = []
    unknown: dict[ArtifactRef, str] = {}
    for job in sorted(sampled_jobs(subject), key=lambda job: job.labels.llm):  # Each LLM is loaded once.
        shard = job.shards[0]
        why = unlike("llm", shard.parameters.llm, shard.identity.get("llm", {}))
        if why:
            unknown |= dict.fromkeys(job.refs, why)
            continue
        report(f"sampling {job.labels} again")
        try:
            made += _compared(subject, context, job, questions, seed)
        except PrmcalError as error:
            unknown |= dict.fromkeys(job.refs, excerpt(str(error), 200).rstrip("."))
    if made or not unknown:
        adjusted = holm([each.compared.p_value for each in made])
        flaws = [
            Flaw(
                f"{each.what}: {each.compared.one:.3f} of the own samples are correct, and {each.compared.other:.3f} "
                f"of those of the submission (adjusted p = {p:.1g} over {each.compared.questions} questions)",
                each.refs,
            )
            for each, p in zip(made, adjusted, strict=True)
            if p < LEVEL
        ]
        found = max((each.compared.found for each in made), default=1.0)
        n = sum(each.compared.questions for each in made)
        passed = (
            f"Own samples agree in {counted(len(made), 'comparison')} (level {LEVEL:g}, Holm). A difference of "
            f"{found:.2f} would have been found in each with 80% power."
        )
        yield concluded(subject, "reproduced", "own samples", n, flaws, passed)
    if unknown:
        first, why = next(iter(unknown.items()))
        cells = subject.cells_behind(unknown)
        told = (
            f"{counted(len(unknown), 'artifact')} with samples. {subject.plan.job_of(first).labels}: {why}."
        )
        yield not_made("reproduced", "samples without an LLM or texts", told, passed=False, cells=cells)


def _compared(
    subject: Subject, context: ModelContext, job: Job[RolloutParameters], count: int, seed: int
) -> Iterator[Made]:
    random = drawing(seed, "samples", job.key)
    known = {each.id: each for shard in job.shards for each in context.questions(shard.parameters.data)}
    ids = sorted(known)
    chosen = [
        known[ids[place]] for place in sorted(random.choice(len(ids), min(count, len(ids)), replace=False))
    ]
    trajectories = (
        context.tables(job.refs, "trajectories").groupby("question_id")["correct"].agg(["sum", "count"])
    )
    own = _correct(context, job, chosen, [Prefix(each.text) for each in chosen], int(random.integers(2**62)))
    theirs = trajectories.loc[[each.id for each in chosen]]
    tried = np.full(len(chosen), DRAWS)
    first = same_chance(own, tried, theirs["sum"].to_numpy(), theirs["count"].to_numpy(), LEVEL)
    if first is not None:
        yield Made(f"{job.labels}, whole trajectories", job.refs, first)
    for success in subject.plan.jobs_of(SuccessParameters):
        if success.inputs[0].key == job.key and subject.present(success):
            yield from _followed_up(context, job, success, chosen, own, random)


def _followed_up(
    context: ModelContext,
    job: Job[RolloutParameters],
    success: Job[SuccessParameters],
    chosen: list[Question],
    own: np.ndarray,
    random: np.random.Generator,
) -> Iterator[Made]:
    """Compare follow-ups: of the bare questions with the own samples, and of one prefix of each question."""
    counts = context.tables(success.refs, "successes")
    counts = counts[counts["question_id"].isin([each.id for each in chosen])]
    sums = ["successes", "follow_ups"]
    bare = counts[counts["step"] == 0].groupby("question_id")[sums].sum()
    here = [place for place, each in enumerate(chosen) if each.id in bare.index]
    k, n = (bare.loc[[chosen[place].id for place in here], name].to_numpy(np.int64) for name in sums)
    found = same_chance(own[here], np.full(len(here), DRAWS), k, n, LEVEL)
    if found is not None:
        yield Made(f"{success.labels}, follow-ups of bare questions", success.refs, found)

    prefixes = counts[(counts["step"] > 0) & ~counts["terminal"]]
    prefixes = prefixes.groupby(["question_id", "trajectory", "step"])[sums].sum().reset_index()
    drawn = [
        group.iloc[int(random.integers(len(group)))]
        for _, group in prefixes.groupby("question_id", sort=True)
    ]
    if not drawn:
        return
    questions = {each.id: each for each in chosen}
    steps = _steps(context, success, drawn)
    asked = [questions[row["question_id"]] for row in drawn]
    given = [Prefix(each.text, part) for each, part in zip(asked, steps, strict=True)]
    again = _correct(context, job, asked, given, int(random.integers(2**62)))
    k, n = (np.array([row[name] for row in drawn]) for name in sums)
    found = same_chance(again, np.full(len(drawn), DRAWS), k, n, LEVEL)
    if found is not None:
        yield Made(f"{success.labels}, follow-ups of prefixes", success.refs, found)


def _steps(
    context: ModelContext, success: Job[SuccessParameters], drawn: list[pd.Series]
) -> list[tuple[str, ...]]:
    import pandas as pd

    tables = [context.table(shard, "rollout", "trajectories") for shard in success.shards]
    texts = pd.concat(tables).drop_duplicates(["question_id", "trajectory"])
    found = texts.set_index(["question_id", "trajectory"])["text"]
    return [
        tuple(split_steps(found[row["question_id"], row["trajectory"]])[: int(row["step"])]) for row in drawn
    ]


def _correct(
    context: ModelContext,
    job: Job[RolloutParameters],
    questions: list[Question],
    prefixes: list[Prefix],
    seed: int,
) -> np.ndarray:
    """Sample from the LLM, and return how many samples of each prefix are correct."""
    given = job.shards[0].parameters
    with plugin_guard("llm", given.llm.name, "generate"):
        llm = context.llm(given.llm)
        completions = patiently(llm, lambda: llm.generate(prefixes, DRAWS, given.sampling, seed))
        for drawn in completions:
            check_completions(drawn, DRAWS)
        stored = [in_steps(llm, prefix, drawn) for prefix, drawn in zip(prefixes, completions, strict=True)]
    return np.array(
        [
            sum(
                context.grade(given.data.dataset, question, text_so_far(prefix.steps) + each.text)[0]
                == "correct"
                for each in drawn
            )
            for question, prefix, drawn in zip(questions, prefixes, stored, strict=True)
        ]
    )


def same_chance(
    c: NDArray[np.int64],
    m: NDArray[np.int64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    level: float,
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


# `scipy.stats` has these distributions too, but takes a second to import.
def _log_ways(n: int, k: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Return ln C(n, k)."""
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(np.asarray(k) + 1) - gammaln(n - np.asarray(k) + 1))


def _deviations(level: float) -> float:
    """Return the true difference, in standard errors, that a two-sided normal test finds with 80% power."""
    from scipy.special import ndtri

    return float(ndtri(_POWER) - ndtri(level / 2))
