"""The last tier: own samples have the same chances of success as those of a submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.paired import holm
from prmcal.db.text.formats import counted
from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import Parameters, RolloutParameters, SuccessParameters
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef, Store, content_key
from prmcal.harness.verify.again import Again, own_shard
from prmcal.harness.verify.subject import Flaw
from prmcal.harness.verify.texts import Unknown, jobs_here, not_ready, random_of, trajectories_of
from prmcal.steps import join_steps, split_steps

if TYPE_CHECKING:
    import pandas as pd


DRAWS = 8
"""Own samples of each bare question, and own follow-ups of each prefix."""
LEVEL = 0.001
"""The largest probability that an honest submission fails this tier by chance."""
_TRAJECTORY = PREFIX[:2]


def check_samples(
    again: Again, unknown: Unknown, questions: int, seed: int, works: Callable[[str], None]
) -> Iterator[Check]:
    """Draw a sample of the shards of each LLM again, with other random numbers, and compare the chances of success.

    Parameters
    ----------
    again : Again
    unknown : dict
        Why questions are not known, by data set and split.
    questions : int
        Shards of each LLM and split are drawn until they have this number of questions.
    seed : int
        The seed of the verification.
    works : callable
        Takes a line about the progress.
    """
    subject = again.subject
    problems: dict[ArtifactRef, str] = {}
    made: list[tuple[str, Job[Any], Compared]] = []
    followed: dict[str, list[Job[SuccessParameters]]] = {}
    for success in jobs_here(subject, SuccessParameters):
        followed.setdefault(success.inputs[0].key, []).append(success)
    for job in sorted(jobs_here(subject, RolloutParameters), key=lambda job: job.labels.llm):
        why = not_ready(again, job, unknown)
        works(f"sampling {job.labels} again")
        drawn = [] if why else _drawn(job, questions, seed)
        own = {shard.ref: own_shard(shard, seed, trajectories=range(DRAWS)) for shard in drawn}
        counts = [
            (other, *_follow_up(again, other, drawn, seed)) for other in followed.get(job.key, []) if drawn
        ]
        shards = [*own.values(), *(shard for _, shards, _ in counts for shard in shards)]
        failed = again.compute(shards)
        if why or failed:
            problems |= dict.fromkeys(job.refs, why or next(iter(failed.values())))
            continue
        samples = _correct(trajectories_of(again.store, [each.ref for each in own.values()]))
        theirs = _correct(trajectories_of(again.store, job.refs))
        made += _compared(f"{job.labels}, whole trajectories", job, samples, theirs)
        for success, shards, prefixes in counts:
            stored = _successes(again.store, success.refs).merge(prefixes, on=PREFIX)
            new = _successes(again.store, [shard.ref for shard in shards])
            for name, part, other in (
                ("follow-ups of bare questions", new[new["step"] == 0], _bare(again, success)),
                ("follow-ups of prefixes", new[new["step"] > 0], stored),
            ):
                made += _compared(f"{success.labels}, {name}", success, _summed(part), _summed(other))
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


def _drawn(job: Job[RolloutParameters], questions: int, seed: int) -> list[Shard[RolloutParameters]]:
    """Draw shards of different questions, until there are enough questions."""
    found: list[Shard[RolloutParameters]] = []
    first = {shard.parameters.data.questions: shard for shard in job.shards}
    shards = list(first.values())
    for place in random_of(seed, "samples", job.key).permutation(len(shards)):
        if sum(len(each.parameters.data.questions) for each in found) < questions:
            found.append(shards[place])
    return found


def _follow_up(
    again: Again, success: Job[SuccessParameters], drawn: Sequence[Shard[RolloutParameters]], seed: int
) -> tuple[list[Shard[Parameters]], pd.DataFrame]:
    """Return the shards that follow up one prefix of each question and the bare question, and these prefixes.

    A shard follows up the whole of what it reads. So it reads trajectories that end where a prefix ends.
    """
    import pandas as pd

    random = random_of(seed, "prefixes", success.key)
    counts = _successes(again.store, success.refs)
    open_ones = counts[(counts["step"] > 0) & ~counts["terminal"]].groupby("question_id")
    prefixes = open_ones.sample(1, random_state=random)[PREFIX]
    shards: list[Shard[Parameters]] = []
    for rollout in drawn:
        asked = rollout.parameters.data.questions
        shard = next((each for each in success.shards if each.parameters.data.questions == asked), None)
        if shard is None:
            continue
        table = trajectories_of(again.store, shard.inputs["rollout"]).merge(prefixes, on=_TRAJECTORY)
        cut = [
            join_steps(split_steps(text)[:step])
            for text, step in zip(table["text"], table["step"], strict=True)
        ]
        source = ArtifactRef("rollout", content_key(["own", seed, shard.ref.key]))
        again.write(
            source, {"trajectories": table.assign(text=cut, trajectory=0).astype({"trajectory": "int32"})}
        )
        changes = {"trajectories": range(1), "follow_ups": range(DRAWS), "most_prefixes": 2}
        shards.append(own_shard(shard, seed, inputs={"rollout": (source,)}, **changes))
    return shards, pd.DataFrame(prefixes)


def _bare(again: Again, success: Job[SuccessParameters]) -> pd.DataFrame:
    counts = _successes(again.store, success.refs)
    return counts[counts["step"] == 0]


def _successes(store: Store, refs: Sequence[ArtifactRef]) -> pd.DataFrame:
    import pandas as pd

    tables = [store.read(ref.kind, ref.key, "successes").to_pandas() for ref in refs]
    empty = pd.DataFrame(columns=[*PREFIX, "successes", "follow_ups", "terminal"])
    return pd.concat(tables, ignore_index=True) if tables else empty


def _correct(table: pd.DataFrame) -> pd.DataFrame:
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
    from scipy.special import (
        gammaln,
        ndtri,
    )  # `scipy.stats` has the distribution too, but takes a second to import.

    def log_ways(total: Any, part: Any) -> Any:  # ln C(total, part)
        return gammaln(total + 1) - gammaln(part + 1) - gammaln(total - part + 1)

    distribution, offset = np.ones(1), 0
    for own_c, own_m, own_k, own_n in zip(c, m, k, n, strict=True):
        right = own_c + own_k
        low, high = max(0, right - own_n), min(own_m, right)
        part = np.arange(low, high + 1)
        ways = log_ways(own_m, part) + log_ways(own_n, right - part)
        distribution = np.convolve(distribution, np.exp(ways - log_ways(own_m + own_n, right)))
        offset += low
    place = int(c.sum()) - offset
    p_value = min(1.0, 2 * min(distribution[: place + 1].sum(), distribution[place:].sum()))
    pooled = (c + k + 1) / (m + n + 2)
    error = float(np.sqrt(np.sum(pooled * (1 - pooled) * (1 / m + 1 / n)))) / len(c)
    found = float(ndtri(0.8) - ndtri(LEVEL / 2)) * error
    return Compared(float(np.mean(c / m)), float(np.mean(k / n)), float(p_value), found, len(c))
