"""The tiers in their order. The cost of each is shown first, and one with a failed check is the last."""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prmcal import __version__
from prmcal.db.metrics import TIERS, Tier
from prmcal.db.text.formats import amount, counted, duration
from prmcal.errors import DataError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    MeasuringParameters,
    Parameters,
    RolloutParameters,
    ScoreParameters,
    SuccessParameters,
)
from prmcal.harness.share.verify_record import Check, Verification
from prmcal.harness.verify.again import ROUNDING, Again
from prmcal.harness.verify.plan import check_plan, known_questions
from prmcal.harness.verify.rows import check_rows
from prmcal.harness.verify.samples import DRAWS, check_samples
from prmcal.harness.verify.subject import Flaw, Subject, opened
from prmcal.harness.verify.texts import (
    Unknown,
    check_fits,
    check_grades,
    check_scores,
    fits_of,
    graded_shards,
    jobs_here,
    random_of,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a verification is asked for, and what it uses besides the submission.

    Attributes
    ----------
    workers : int
        Processes of the first tier.
    results : float
        The share of results that the first tier computes again, in (0, 1].
    share : float
        The share of trajectories that are scored again, in (0, 1].
    questions : int
        Questions of each LLM and split that are sampled again, at least.
    all_fits : bool
        Whether fits that need the PRM or its hidden states are repeated.
    texts_from : Path or None
        A bundle or a folder with the texts of the same trajectories.
    plugin_files : tuple of Path
        Plugin files, which are loaded already.
    """

    workers: int = 1
    results: float = 1.0
    share: float = 0.02
    questions: int = 30
    all_fits: bool = False
    texts_from: Path | None = None
    plugin_files: tuple[Path, ...] = ()


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

    Parameters
    ----------
    subject : Subject
    tier : {"consistent", "graded again", "scored again", "reproduced"}
        The highest tier.
    asked : Asked
    begins : callable
        Takes the next tier and its cost in words. Returns whether it is run.
    works : callable
        Takes a line about the progress.
    by : str
        The name of the verifier.
    seed : int, optional
        The seed of all random choices. By default it is drawn now, so that a submitter cannot know it.

    Raises
    ------
    PrmcalError
        If something else than the submission is wrong, such as the folder with the texts.
    """
    drawn = secrets.randbits(63) if seed is None else seed
    checks: list[Check] = []
    tried: Tier = TIERS[0]
    with _repeating(subject, asked) as (again, unknown):
        for each in TIERS[: TIERS.index(tier) + 1]:
            if not begins(each, cost_of(subject, each, asked)):
                break
            tried = each
            if each == "consistent":
                checks += _consistent(again, asked, drawn, works)
            elif each == "graded again":
                checks += check_grades(again, unknown)
            elif each == "scored again":
                checks += check_scores(again, unknown, asked.share, drawn, works)
                checks += check_fits(again, unknown, asked.all_fits, works)
            else:
                checks += check_samples(again, unknown, asked.questions, drawn, works)
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


@contextmanager
def _repeating(subject: Subject, asked: Asked) -> Iterator[tuple[Again, Unknown]]:
    """Yield where parts of the plan are computed again, and why questions are not known with their texts."""
    known, unknown = known_questions(subject)
    with tempfile.TemporaryDirectory(prefix="prmcal-again-") as work, _texts_of(asked) as others:
        for other in others:
            known = known_questions(other)[0] | known
        unknown = {place: why for place, why in unknown.items() if place not in known}
        planned = {(each.name, each.split): each.questions for each in subject.plan.datasets}
        again = Again(subject, Path(work), others, planned | known, asked.plugin_files)
        try:
            yield again, unknown
        finally:
            again.close()


@contextmanager
def _texts_of(asked: Asked) -> Iterator[list[Subject]]:
    if asked.texts_from is None:
        yield []
        return
    if not asked.texts_from.exists():
        raise DataError(f"There is no bundle or folder {asked.texts_from} for --texts-from.")
    with opened(asked.texts_from) as subject:
        yield [subject]


# Consistent


def recomputed_shards(subject: Subject) -> list[Shard[Parameters]]:
    """Return the shards that are computed again from artifacts alone, with measurements and calibrated rewards."""
    return [
        shard
        for shard in subject.plan.shards()
        if shard.ref in subject.manifests
        and (
            isinstance(shard.parameters, MeasuringParameters)
            or (
                isinstance(shard.parameters, CalibratedParameters)
                and not {"hidden", "rollout"}.intersection(shard.inputs)
            )
        )
    ]


def _consistent(again: Again, asked: Asked, seed: int, works: Callable[[str], None]) -> Iterator[Check]:
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
    yield check_rows(subject)
    yield from _results(again, asked, seed, works)


def _origin(subject: Subject) -> Check:
    """Say what is known of the bundle. Its files were compared with their hashes when it was unpacked."""
    submission = subject.submission
    if submission is None:
        return Check("consistent", "bundle", True, 0, "It is the folder of a run, so nobody has signed it.")
    who = f" by {submission.signer}" if submission.signer else ""
    signed = f"signed{who} with {submission.signed_by}" if submission.signed_by else "not signed"
    n = len(submission.files)
    message = f"The submission {submission.submission_id} has {n:,} files, which match their hashes. It is {signed}."
    return Check("consistent", "bundle", True, n, message)


def _results(again: Again, asked: Asked, seed: int, works: Callable[[str], None]) -> Iterator[Check]:
    """Compute results again, all or a random share, and compare them with those of the submission."""
    subject = again.subject
    every = recomputed_shards(subject)
    count = math.ceil(asked.results * len(every))
    places = sorted(random_of(seed, "results").choice(len(every), count, replace=False)) if every else []
    unlike = {every[place].ref: why for place in places if (why := again.unlike_here(every[place]))}
    chosen = [every[place] for place in places if every[place].ref not in unlike]
    failed = again.compute(chosen, asked.workers, works)
    flaws = []
    for shard in chosen:
        where = subject.plan.job_of(shard.ref)
        if shard.ref in failed:
            here = all(ref in subject.manifests for refs in shard.inputs.values() for ref in refs)
            why = failed[shard.ref] if here else "what it is computed from is not here"
            flaws.append(Flaw(f"{where}: it cannot be computed again: {why}", (shard.ref,)))
        else:
            flaws += [Flaw(f"{where}: {each}", (shard.ref,)) for each in again.flaws(shard, ROUNDING)]
    part = count / len(every) if every else 1.0
    passed = (
        f"{counted(len(chosen), 'artifact')} with metrics, intervals, curves, replicates and calibrated rewards are "
        f"equal when computed again, to {ROUNDING.relative:g} of each number."
    )
    if part < 1:
        passed += (
            f" They were drawn at random from {len(every):,}: one altered result is found with a probability of "
            f"{part:.0%}, and one of ten with {1 - (1 - part) ** 10:.0%}."
        )
    yield subject.checked("consistent", "results computed again", len(chosen), flaws, passed)
    yield from subject.unchecked("consistent", "results of other versions", unlike)


# Costs


def cost_of(subject: Subject, tier: Tier, asked: Asked) -> str:
    """Return what a tier computes and about how long it takes, to stand after its name.

    The seconds are those of the machine of the submitter.
    """

    def seconds(shards: Sequence[Shard[Parameters]]) -> float:
        return sum(subject.manifests[each.ref].seconds for each in shards if each.ref in subject.manifests)

    if tier == "consistent":
        shards = recomputed_shards(subject)
        count = math.ceil(asked.results * len(shards))
        return (
            f"computes {counted(count, 'artifact')} again and runs no model: "
            f"{duration(asked.results * seconds(shards))} of one core in the run, with "
            f"{counted(asked.workers, 'process', 'processes')} here"
        )
    if tier == "graded again":
        return f"grades the texts of {counted(len(graded_shards(subject)), 'artifact')} and runs no model"
    if tier == "scored again":
        scored = [shard for job in jobs_here(subject, ScoreParameters) for shard in job.shards]
        tokens = asked.share * sum(subject.manifests[each.ref].scored_tokens for each in scored)
        fits, left = fits_of(subject, asked.all_fits)
        not_done = (
            f", and leaves out {counted(len(left), 'fit')} that need the PRM (--all-fits)" if left else ""
        )
        return (
            f"scores {asked.share:.1%} of the trajectories ({amount(tokens)} tokens, "
            f"{duration(asked.share * seconds(scored))} in the run) and repeats {counted(len(fits), 'fit')} "
            f"({duration(seconds(fits))} in the run){not_done}"
        )
    samples = time = 0.0
    followed = {job.inputs[0].key for job in subject.plan.jobs_of(SuccessParameters)}
    for job in jobs_here(subject, RolloutParameters):
        taken = max(1, sum(subject.manifests[ref].samples for ref in job.refs))
        questions = sum(len(shard.parameters.data.questions) for shard in job.shards)
        own = min(asked.questions, questions) * DRAWS * (3 if job.key in followed else 1)
        samples, time = samples + own, time + own * seconds(job.shards) / taken
    return f"samples about {amount(samples)} completions with the LLMs ({duration(time)} in the run)"
