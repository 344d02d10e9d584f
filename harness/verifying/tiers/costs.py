"""The costs of each tier, told before it begins, from what the work took when it was done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from prmcal.db.metrics import Tier
from prmcal.db.text.formats import amount, counted, duration
from prmcal.harness.jobs.parameters import SuccessParameters
from prmcal.harness.verifying.consistent.again import is_recomputed
from prmcal.harness.verifying.repeated.fits import fits_of
from prmcal.harness.verifying.repeated.graded import graded_shards
from prmcal.harness.verifying.repeated.reproduced import DRAWS, sampled_jobs
from prmcal.harness.verifying.repeated.scored import score_jobs
from prmcal.harness.verifying.subject import Subject

__all__ = ["Asked", "cost_of"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a verification was asked for.

    Attributes
    ----------
    workers : int
        Processes of the first tier.
    results : float
        The share of results that the first tier computes again, in (0, 1].
    share : float
        The share of trajectories that are scored again, in (0, 1].
    questions : int
        Questions of each LLM and split that are sampled again.
    all_fits : bool
        Whether fits that need the PRM or its hidden states are repeated.
    """

    workers: int = 1
    results: float = 1.0
    share: float = 0.02
    questions: int = 30
    all_fits: bool = False


def cost_of(subject: Subject, tier: Tier, asked: Asked) -> str:
    """Return what a tier computes and about how long it takes, in a sentence.

    The seconds are those of the machine of the submitter.
    """
    costs: dict[Tier, Callable[[Subject, Asked], str]] = {
        "consistent": _consistent,
        "graded again": _graded,
        "scored again": _scored,
        "reproduced": _reproduced,
    }
    return costs[tier](subject, asked)


def _consistent(subject: Subject, asked: Asked) -> str:
    shards = [shard.ref for shard in subject.plan.shards() if is_recomputed(shard)]
    seconds = asked.results * sum(
        subject.manifests[ref].seconds for ref in shards if ref in subject.manifests
    )
    count = math.ceil(asked.results * len(shards))
    return (
        f"computes {counted(count, 'artifact')} again and runs no model: {duration(seconds)} of one core in the "
        f"run, with {counted(asked.workers, 'process', 'processes')} here"
    )


def _graded(subject: Subject, asked: Asked) -> str:
    texts = sum(
        len(shard.parameters.data.questions) * len(getattr(shard.parameters, "trajectories", range(1)))
        for shard in graded_shards(subject)
    )
    return f"grades {counted(texts, 'text')} and runs no model"


def _scored(subject: Subject, asked: Asked) -> str:
    manifests = [subject.manifests[ref] for job in score_jobs(subject) for ref in job.refs]
    tokens = asked.share * sum(each.scored_tokens for each in manifests)
    seconds = asked.share * sum(each.seconds for each in manifests)
    done, left = fits_of(subject, asked.all_fits)
    refs = [job.shards[0].ref for job in done]
    fitting = sum(subject.manifests[ref].seconds for ref in refs if ref in subject.manifests)
    told = f", and leaves out {counted(len(left), 'fit')} that need the PRM (--all-fits)" if left else ""
    return (
        f"scores {asked.share:.1%} of the trajectories ({amount(tokens)} tokens, {duration(seconds)} in the run) and "
        f"repeats {counted(len(done), 'fit')} ({duration(fitting)} in the run){told}"
    )


def _reproduced(subject: Subject, asked: Asked) -> str:
    samples, tokens, seconds = 0.0, 0.0, 0.0
    followed = {job.inputs[0].key for job in subject.plan.jobs_of(SuccessParameters)}
    for job in sampled_jobs(subject):
        manifests = [subject.manifests[ref] for ref in job.refs]
        taken = max(1, sum(each.samples for each in manifests))
        questions = sum(len(shard.parameters.data.questions) for shard in job.shards)
        own = min(asked.questions, questions) * DRAWS * (2 if job.key in followed else 1)
        samples += own
        tokens += own * sum(each.generated_tokens for each in manifests) / taken
        seconds += own * sum(each.seconds for each in manifests) / taken
    return (
        f"samples about {amount(samples)} completions ({amount(tokens)} tokens, {duration(seconds)} in the run) with "
        "the LLMs"
    )
