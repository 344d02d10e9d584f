"""The tiers in their order. The cost of each is shown first, and one with a failed check is the last."""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
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
)
from prmcal.harness.share.verify_record import Check, Verification
from prmcal.harness.verify.again import ROUNDING, Again, Asked
from prmcal.harness.verify.plan import check_plan
from prmcal.harness.verify.rows import check_rows
from prmcal.harness.verify.samples import DRAWS, check_samples
from prmcal.harness.verify.subject import Flaw, Subject, opened
from prmcal.harness.verify.texts import (
    check_fits,
    check_grades,
    check_scores,
    fits_of,
    graded_shards,
    is_trained,
)


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

    Raises a PrmcalError if something else than the submission is wrong, such as the folder with the texts.

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


def recomputed_shards(subject: Subject) -> list[Shard[Parameters]]:
    """Return the shards that are computed again from artifacts alone, with measurements and calibrated rewards."""
    return [
        shard
        for shard in subject.plan.shards()
        if shard.ref in subject.manifests
        and (
            isinstance(shard.parameters, MeasuringParameters)
            or (isinstance(shard.parameters, CalibratedParameters) and not is_trained(shard))
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
    yield check_rows(subject)
    yield from _results(again)


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


def _results(again: Again) -> Iterator[Check]:
    """Compute results again, all or a random share, and compare them with those of the submission."""
    subject, every = again.subject, recomputed_shards(again.subject)
    count = math.ceil(again.asked.results * len(every))
    drawn = [every[place] for place in sorted(again.random("results").permutation(len(every))[:count])]
    unlike = {each.ref: why for each in drawn if (why := again.unlike_here(each))}
    chosen = [each for each in drawn if each.ref not in unlike]
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
    if count < len(every):
        part = count / len(every)
        passed += (
            f" They were drawn at random from {len(every):,}: one altered result is found with a probability of "
            f"{part:.0%}, and one of ten with {1 - (1 - part) ** 10:.0%}."
        )
    yield subject.checked("consistent", "results computed again", len(chosen), flaws, passed)
    yield from subject.unchecked("consistent", "results of other versions", unlike)


def _scored(again: Again) -> Iterator[Check]:
    yield from check_scores(again)
    yield from check_fits(again)


_CHECKS: dict[Tier, Callable[[Again], Iterator[Check]]] = {
    "consistent": _consistent,
    "graded again": check_grades,
    "scored again": _scored,
    "reproduced": check_samples,
}


def cost_of(subject: Subject, tier: Tier, asked: Asked) -> str:
    """Return what a tier does and about how long that took on the machine of the run, to stand after its name."""

    def took(shards: Iterable[Shard[Parameters]], part: float) -> str:
        here = (subject.manifests[each.ref] for each in shards if each.ref in subject.manifests)
        return f"{duration(part * sum(each.seconds for each in here))} in the run"

    match tier:
        case "consistent":
            shards = recomputed_shards(subject)
            count = counted(math.ceil(asked.results * len(shards)), "artifact")
            return f"computes {count} again and runs no model: {took(shards, asked.results)}, on one core"
        case "graded again":
            return f"grades the texts of {counted(len(graded_shards(subject)), 'artifact')} and runs no model"
        case "scored again":
            fits, left = fits_of(subject, asked.all_fits)
            not_done = (
                f", and leaves out {counted(len(left), 'fit')} with the PRM (--all-fits)" if left else ""
            )
            scored = took(subject.shards_here(ScoreParameters), asked.share)
            return (
                f"scores {asked.share:.1%} of the trajectories ({scored}) and repeats {counted(len(fits), 'fit')} "
                f"({took(fits, 1.0)}){not_done}"
            )
        case "reproduced":
            rollouts = subject.shards_here(RolloutParameters)
            drawn = sum(subject.manifests[each.ref].samples for each in rollouts)
            # As many follow-ups of the bare question and of a prefix.
            samples = 3 * DRAWS * asked.questions * len(subject.jobs_here(RolloutParameters))
            time = took(rollouts, samples / max(1, drawn))
            return f"samples about {amount(samples)} completions with the LLMs ({time})"
