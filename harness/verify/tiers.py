"""The tiers in their order, the cost of each, and the last one: own samples agree with those of the submission."""

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal import __version__
from prmcal.db.metrics import TIERS, Tier
from prmcal.db.statistics.paired import holm
from prmcal.db.text.formats import amount, counted, duration
from prmcal.errors import DataError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.context import PREFIX
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.share.submissions import Check, Verification
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verify import texts
from prmcal.harness.verify.again import ROUNDING, Again, Asked
from prmcal.harness.verify.subject import Flaw, Subject, check_plan, opened
from prmcal.steps import join_steps, split_steps


def verified(
    subject: Subject,
    tier: Tier,
    asked: Asked,
    begins: Callable[[Tier, str], bool] = lambda tier, cost: True,
    works: Callable[[str], None] = lambda line: None,
    by: str = "",
    seed: int | None = None,
) -> Verification:
    """Verify a submission up to a tier. A tier with a failed check ends it.

    `begins` takes the next tier and its cost in words, and returns whether it is run. `works` takes a line about the
    progress. `by` is the name of the verifier. By default, the seed of all random choices is drawn now, so that a
    submitter cannot know it. Raises a PrmcalError if something else than the submission is wrong, such as the folder
    with the texts.
    """
    drawn = secrets.randbits(63) if seed is None else seed
    checks: list[Check] = []
    tried: Tier = TIERS[0]
    if asked.texts_from is not None and not asked.texts_from.exists():
        raise DataError(f"There is no bundle or folder {asked.texts_from} for --texts-from.")
    with (
        tempfile.TemporaryDirectory(prefix="prmcal-again-") as work,
        nullcontext() if asked.texts_from is None else opened(asked.texts_from) as other,
        closing(Again(subject, Path(work), asked, drawn, works, other)) as again,
    ):
        for each in TIERS[: TIERS.index(tier) + 1]:
            if not begins(each, cost_of(subject, each, asked)):
                break
            tried = each
            checks += _CHECKS[each](again)
            if not all(check.passed for check in checks):
                break
    return Verification(
        "" if subject.submission is None else subject.submission.submission_id,
        tried,
        all(check.passed for check in checks),
        by,
        datetime.now(UTC).isoformat(timespec="seconds"),
        __version__,
        drawn,
        tuple(checks),
    )


def recomputed_shards(subject: Subject) -> list[Shard[parameters.Parameters]]:
    """Return the shards that are computed again from artifacts alone, with measurements and calibrated rewards."""
    return [
        shard
        for shard in subject.plan.shards()
        if shard.ref in subject.manifests
        and (
            isinstance(shard.parameters, parameters.MeasuringParameters)
            or (isinstance(shard.parameters, parameters.CalibratedParameters) and not texts.is_trained(shard))
        )
    ]


def _consistent(again: Again) -> Iterator[Check]:
    subject = again.subject
    yield _origin(subject)
    yield from check_plan(subject)
    n = len(subject.manifests)
    absent = [
        Flaw(f"{subject.plan.job_of(ref)}: its artifact is absent or damaged", (ref,))
        for ref in subject.missing()
    ]
    passed = f"{counted(n, 'artifact')} match their manifests."
    yield subject.checked("consistent", "artifacts", n, absent, passed)
    yield texts.check_rows(subject)
    yield from _results(again)


def _origin(subject: Subject) -> Check:
    """Say what is known of the bundle. Its files were compared with their hashes when it was unpacked."""
    submission = subject.submission
    if submission is None:
        return Check("consistent", "bundle", True, 0, "It is the folder of a run, so nobody has signed it.")
    signed = f"signed with {submission.signed_by}" if submission.signed_by else "not signed"
    n = len(submission.files)
    message = f"The submission {submission.submission_id} has {n:,} files, which match their hashes. It is {signed}."
    return Check("consistent", "bundle", True, n, message)


def _results(again: Again) -> Iterator[Check]:
    """Compute results again, and compare them with those of the submission."""
    subject, every = again.subject, recomputed_shards(again.subject)
    unlike = {each.ref: why for each in every if (why := again.unlike_here(each))}
    chosen = [each for each in every if each.ref not in unlike]
    failed = again.compute(chosen, again.asked.workers)
    flaws = []
    for shard in chosen:
        found = list(again.flaws(shard, ROUNDING)) if shard.ref not in failed else []
        if shard.ref in failed:
            here = all(ref in subject.manifests for refs in shard.inputs.values() for ref in refs)
            why = failed[shard.ref] if here else "what it is computed from is not here"
            found.append(f"it cannot be computed again: {why}")
        flaws += [Flaw(f"{subject.plan.job_of(shard.ref)}: {each}", (shard.ref,)) for each in found]
    passed = (
        f"{counted(len(chosen), 'artifact')} with metrics, intervals, curves, replicates and calibrated rewards are "
        f"equal when computed again, to {ROUNDING.relative:g} of each number."
    )
    yield subject.checked("consistent", "results computed again", len(chosen), flaws, passed)
    yield from subject.unchecked("consistent", "results of other versions", unlike)


def _scored(again: Again) -> Iterator[Check]:
    yield from texts.check_scores(again)
    yield from texts.check_fits(again)


def cost_of(subject: Subject, tier: Tier, asked: Asked) -> str:
    """Return what a tier does and about how long that took on the machine of the run, to stand after its name."""

    def took(shards: Iterable[Shard[parameters.Parameters]], part: float) -> str:
        here = (subject.manifests[each.ref] for each in shards if each.ref in subject.manifests)
        return f"{duration(part * sum(each.seconds for each in here))} in the run"

    match tier:
        case "consistent":
            shards = recomputed_shards(subject)
            count = counted(len(shards), "artifact")
            return f"computes {count} again and runs no model: {took(shards, 1.0)}, on one core"
        case "graded again":
            return f"grades the texts of {counted(len(texts.graded_shards(subject)), 'artifact')} and runs no model"
        case "scored again":
            fits, left = texts.fits_of(subject, asked.all_fits)
            not_done = (
                f", and leaves out {counted(len(left), 'fit')} with the PRM (--all-fits)" if left else ""
            )
            scored = took(subject.shards_here(parameters.ScoreParameters), asked.share)
            return (
                f"scores {asked.share:.1%} of the trajectories ({scored}) and repeats {counted(len(fits), 'fit')} "
                f"({took(fits, 1.0)}){not_done}"
            )
        case "reproduced":
            rollouts = subject.shards_here(parameters.RolloutParameters)
            drawn = sum(subject.manifests[each.ref].samples for each in rollouts)
            # As many follow-ups of the bare question and of a prefix.
            samples = 3 * DRAWS * asked.questions * len(subject.jobs_here(parameters.RolloutParameters))
            time = took(rollouts, samples / max(1, drawn))
            return f"samples about {amount(samples)} completions with the LLMs ({time})"


DRAWS = 8
"""Own samples of each bare question, and own follow-ups of each prefix."""
LEVEL = 0.001
"""The largest probability that an honest submission fails this tier by chance."""


class Compared(NamedTuple):
    """Two estimates of one mean over questions, the p value of their difference, and the number of questions.

    `found` is the smallest difference that is found with a probability of 80%.
    """

    one: float
    other: float
    p_value: float
    found: float
    questions: int


def check_samples(again: Again) -> Iterator[Check]:
    """Draw a sample of the shards of each LLM again, with other random numbers, and compare the chances of success."""
    subject = again.subject
    problems: dict[ArtifactRef, str] = {}
    made: list[tuple[str, Job[Any], Compared]] = []
    followed: dict[str, list[Job[parameters.SuccessParameters]]] = {}
    for success in subject.jobs_here(parameters.SuccessParameters):
        followed.setdefault(success.inputs[0].key, []).append(success)
    for job in sorted(subject.jobs_here(parameters.RolloutParameters), key=lambda job: job.labels.llm):
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
        samples, theirs = (
            again.store.table([each.ref for each in shards], "trajectories")
            .groupby("question_id")["correct"]
            .agg(["sum", "count"])
            for shards in (own, job.shards)
        )
        made += _compared(f"{job.labels}, whole trajectories", job, samples, theirs)
        for success, shards, prefixes in counts:
            theirs = again.store.table(success.refs, "successes")
            new = again.store.table([shard.ref for shard in shards], "successes")
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


def _drawn(again: Again, job: Job[parameters.RolloutParameters]) -> list[Shard[parameters.RolloutParameters]]:
    """Draw shards of different questions, until there are enough questions."""
    found: list[Shard[parameters.RolloutParameters]] = []
    shards = list({shard.parameters.data.questions: shard for shard in job.shards}.values())
    for place in again.random("samples", job.key).permutation(len(shards)):
        if sum(len(each.parameters.data.questions) for each in found) < again.asked.questions:
            found.append(shards[place])
    return found


def _follow_up(
    again: Again,
    success: Job[parameters.SuccessParameters],
    drawn: Sequence[Shard[parameters.RolloutParameters]],
) -> tuple[list[Shard[parameters.Parameters]], pd.DataFrame]:
    """Return the shards that follow up one prefix of each question and the bare question, and these prefixes.

    A shard follows up the whole of what it reads. So it reads trajectories that end where a prefix ends.
    """
    counts = again.store.table(success.refs, "successes")
    open_ones = counts[(counts["step"] > 0) & ~counts["terminal"]].groupby("question_id")
    prefixes = open_ones.sample(1, random_state=again.random("prefixes", success.key))[PREFIX]
    first = {shard.parameters.data.questions: shard for shard in reversed(success.shards)}
    shards: list[Shard[parameters.Parameters]] = []
    for asked in (rollout.parameters.data.questions for rollout in drawn):
        if asked not in first:
            continue
        table = again.store.table(first[asked].inputs["rollout"], "trajectories")
        table = table.merge(prefixes, on=PREFIX[:2])
        cut = [
            join_steps(split_steps(text)[:step])
            for text, step in zip(table["text"], table["step"], strict=True)
        ]
        table = table.assign(text=cut, trajectory=0).astype({"trajectory": "int32"})
        changes = {
            "trajectories": range(1),
            "follow_ups": range(DRAWS),
            "most_prefixes": 2,
            "first_prefixes": None,
        }
        shards.append(again.own(first[asked], table, **changes))
    return shards, prefixes


def _summed(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby("question_id")[["successes", "follow_ups"]].sum()


def _compared(
    what: str, job: Job[Any], own: pd.DataFrame, theirs: pd.DataFrame
) -> Iterator[tuple[str, Job[Any], Compared]]:
    """Compare counts by question, of the questions that both have: right ones, and all."""
    both = own.merge(theirs, left_index=True, right_index=True, suffixes=("_own", ""))
    if len(both):
        yield what, job, same_chance(*(both[name].to_numpy(np.int64) for name in both))


def same_chance(
    c: NDArray[np.int64], m: NDArray[np.int64], k: NDArray[np.int64], n: NDArray[np.int64]
) -> Compared:
    """Test whether c of m and k of n have the same chance in each question. All have the shape (questions,).

    Given c + k, the count c of a question has a hypergeometric distribution, and the questions are independent. So the
    sum of c has a known distribution, and the test is exact: it is Cochran, Mantel and Haenszel's. There is at least
    one question.
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


_CHECKS: dict[Tier, Callable[[Again], Iterator[Check]]] = {
    "consistent": _consistent,
    "graded again": texts.check_grades,
    "scored again": _scored,
    "reproduced": check_samples,
}
