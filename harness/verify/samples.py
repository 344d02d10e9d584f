"""The last tier: own samples have the same chances of success as those of a submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.paired import holm
from prmcal.db.text.formats import counted
from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import Parameters, RolloutParameters, SuccessParameters
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verify.again import Again, read_tables
from prmcal.harness.verify.subject import Flaw
from prmcal.steps import join_steps, split_steps

if TYPE_CHECKING:
    import pandas as pd


DRAWS = 8
"""Own samples of each bare question, and own follow-ups of each prefix."""
LEVEL = 0.001
"""The largest probability that an honest submission fails this tier by chance."""


def check_samples(again: Again) -> Iterator[Check]:
    """Draw a sample of the shards of each LLM again, with other random numbers, and compare the chances of success."""
    subject = again.subject
    problems: dict[ArtifactRef, str] = {}
    made: list[tuple[str, Job[Any], Compared]] = []
    followed: dict[str, list[Job[SuccessParameters]]] = {}
    for success in subject.jobs_here(SuccessParameters):
        followed.setdefault(success.inputs[0].key, []).append(success)
    for job in sorted(subject.jobs_here(RolloutParameters), key=lambda job: job.labels.llm):
        why = again.not_ready(job)
        again.works(f"sampling {job.labels} again")
        drawn = [] if why else _drawn(again, job)
        own = [again.own(shard, trajectories=range(DRAWS)) for shard in drawn]
        counts = [
            (success, *_follow_up(again, success, drawn)) for success in followed.get(job.key, []) if drawn
        ]
        failed = again.compute([*own, *(shard for _, shards, _ in counts for shard in shards)])
        if why or failed:
            problems |= dict.fromkeys(job.refs, why or next(iter(failed.values())))
            continue
        samples, theirs = (_right(again, [each.ref for each in shards]) for shards in (own, job.shards))
        made += _compared(f"{job.labels}, whole trajectories", job, samples, theirs)
        for success, shards, prefixes in counts:
            theirs = read_tables(again.store, success.refs, "successes")
            new = read_tables(again.store, [shard.ref for shard in shards], "successes")
            for name, first, other in (
                ("bare questions", new[new["step"] == 0], theirs[theirs["step"] == 0]),
                ("prefixes", new[new["step"] > 0], theirs.merge(prefixes, on=PREFIX)),
            ):
                what = f"{success.labels}, follow-ups of {name}"
                made += _compared(what, success, _summed(first), _summed(other))
    if made or not problems:
        adjusted = holm([found.p_value for _, _, found in made])
        flaws = [
            Flaw(
                f"{what}: {found.one:.3f} of the own samples are correct, and {found.other:.3f} of those of the "
                f"submission (adjusted p = {p:.1g} over {found.questions} questions)",
                job.refs,
            )
            for (what, job, found), p in zip(made, adjusted, strict=True)
            if p < LEVEL
        ]
        widest = max((found.found for _, _, found in made), default=1.0)
        passed = (
            f"Own samples agree in {counted(len(made), 'comparison')} (level {LEVEL:g}, Holm). A difference of "
            f"{widest:.2f} would have been found in each with 80% power."
        )
        n = sum(found.questions for _, _, found in made)
        yield subject.checked("reproduced", "own samples", n, flaws, passed)
    yield from subject.unchecked("reproduced", "samples without an LLM or texts", problems)


def _drawn(again: Again, job: Job[RolloutParameters]) -> list[Shard[RolloutParameters]]:
    """Draw shards of different questions, until there are enough questions."""
    found: list[Shard[RolloutParameters]] = []
    shards = list({shard.parameters.data.questions: shard for shard in job.shards}.values())
    for place in again.random("samples", job.key).permutation(len(shards)):
        if sum(len(each.parameters.data.questions) for each in found) < again.asked.questions:
            found.append(shards[place])
    return found


def _follow_up(
    again: Again, success: Job[SuccessParameters], drawn: Sequence[Shard[RolloutParameters]]
) -> tuple[list[Shard[Parameters]], pd.DataFrame]:
    """Return the shards that follow up one prefix of each question and the bare question, and these prefixes.

    A shard follows up the whole of what it reads. So it reads trajectories that end where a prefix ends.
    """
    counts = read_tables(again.store, success.refs, "successes")
    open_ones = counts[(counts["step"] > 0) & ~counts["terminal"]].groupby("question_id")
    prefixes = open_ones.sample(1, random_state=again.random("prefixes", success.key))[PREFIX]
    first = {shard.parameters.data.questions: shard for shard in reversed(success.shards)}
    shards: list[Shard[Parameters]] = []
    for asked in (rollout.parameters.data.questions for rollout in drawn):
        if asked not in first:
            continue
        table = read_tables(again.store, first[asked].inputs["rollout"], "trajectories")
        table = table.merge(prefixes, on=PREFIX[:2])
        cut = [
            join_steps(split_steps(text)[:step])
            for text, step in zip(table["text"], table["step"], strict=True)
        ]
        table = table.assign(text=cut, trajectory=0).astype({"trajectory": "int32"})
        changes = {"trajectories": range(1), "follow_ups": range(DRAWS), "most_prefixes": 2}
        shards.append(again.own(first[asked], table, **changes))
    return shards, prefixes


def _right(again: Again, refs: Sequence[ArtifactRef]) -> pd.DataFrame:
    table = read_tables(again.store, refs, "trajectories")
    return table.groupby("question_id")["correct"].agg(["sum", "count"])


def _summed(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby("question_id")[["successes", "follow_ups"]].sum()


def _compared(
    what: str, job: Job[Any], own: pd.DataFrame, theirs: pd.DataFrame
) -> Iterator[tuple[str, Job[Any], Compared]]:
    """Compare counts by question, of the questions that both have: right ones, and all."""
    both = own.merge(theirs, left_index=True, right_index=True, suffixes=("_own", ""))
    if len(both):
        yield what, job, same_chance(*(both[name].to_numpy(np.int64) for name in both))


class Compared(NamedTuple):
    """Two estimates of one mean over questions, the p value of their difference, and the number of questions.

    `found` is the smallest difference that is found with a probability of 80%.
    """

    one: float
    other: float
    p_value: float
    found: float
    questions: int


def same_chance(
    c: NDArray[np.int64], m: NDArray[np.int64], k: NDArray[np.int64], n: NDArray[np.int64]
) -> Compared:
    """Test whether c of m and k of n have the same chance in each question.

    Given c + k, the count c of a question has a hypergeometric distribution, and the questions are independent. So the
    sum of c has a known distribution, and the test is exact: it is Cochran, Mantel and Haenszel's.

    Parameters
    ----------
    c, m, k, n : ndarray of shape (questions,)
        At least one question.
    """
    from scipy.special import ndtri
    from scipy.stats import hypergeom

    distribution, offset = np.ones(1), 0
    for own_c, own_m, own_k, own_n in zip(c, m, k, n, strict=True):
        right = own_c + own_k
        low, high = max(0, right - own_n), min(own_m, right)
        chances = hypergeom.pmf(np.arange(low, high + 1), own_m + own_n, right, own_m)
        distribution, offset = np.convolve(distribution, chances), offset + low
    place = int(c.sum()) - offset
    p_value = min(1.0, 2 * min(distribution[: place + 1].sum(), distribution[place:].sum()))
    pooled = (c + k + 1) / (m + n + 2)
    error = float(np.sqrt(np.sum(pooled * (1 - pooled) * (1 / m + 1 / n)))) / len(c)
    found = float(ndtri(0.8) - ndtri(LEVEL / 2)) * error
    return Compared(float(np.mean(c / m)), float(np.mean(k / n)), float(p_value), found, len(c))
