"""Scored again: a random share of the trajectories goes through the PRM once more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import PluginReference, ScoreParameters
from prmcal.harness.jobs.plugin_calls import check_scores, plugin_guard
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verifying.drawing import drawing
from prmcal.harness.verifying.findings import Flaw, concluded, not_made
from prmcal.harness.verifying.repeated.models import ModelContext, unlike
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.messages import excerpt
from prmcal.registry.network import patiently
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TOLERANCES", "check_scores_again", "drawn_trajectories", "score_jobs", "tolerance_of"]

TOLERANCES = {"float32": (0.001, 0.0), "float16": (0.05, 0.01), "bfloat16": (0.25, 0.01)}
"""How far a logit may lie from the stored one, and which share of the prefixes may lie further away."""
_QUANTISED = (0.5, 0.02)
_FEWEST = 5
_ALTERED = (0.01, 0.05)
"""The shares of altered trajectories of which the probability to find them is told."""


def tolerance_of(reference: PluginReference) -> tuple[float, float]:
    """Return the tolerance of a PRM's logits, and the share of prefixes that may be outside, by its precision.

    A PRM whose arguments do not say its precision is taken to compute in bfloat16, as published weights mostly do.
    """
    arguments = reference.arguments
    if any("quant" in name and value for name, value in arguments.items()):
        return _QUANTISED
    return TOLERANCES.get(str(arguments.get("dtype", "")), TOLERANCES["bfloat16"])


def score_jobs(subject: Subject) -> list[Job[ScoreParameters]]:
    """Return the jobs whose scores are here, each once."""
    found = {job.key: job for job in subject.plan.jobs_of(ScoreParameters) if subject.present(job)}
    return list(found.values())


def drawn_trajectories(
    subject: Subject, job: Job[ScoreParameters], share: float, seed: int
) -> list[pd.DataFrame]:
    """Draw trajectories of a job at random. Return the scores of the drawn ones for each of its shards."""
    tables = [
        subject.store.read(ref.kind, ref.key, "rewards").to_pandas()[
            ["question_id", "trajectory", "step", "logit", "over_long"]
        ]
        for ref in job.refs
    ]
    places = [
        (number, question, trajectory)
        for number, table in enumerate(tables)
        for question, trajectory in table[["question_id", "trajectory"]]
        .drop_duplicates()
        .itertuples(index=False)
    ]
    count = min(len(places), max(_FEWEST, math.ceil(share * len(places))))
    chosen = drawing(seed, "scores", job.key).choice(len(places), count, replace=False)
    wanted = {places[each] for each in chosen}
    drawn = []
    for number, table in enumerate(tables):
        pairs = zip(table["question_id"], table["trajectory"], strict=True)
        drawn.append(table[[(number, *pair) in wanted for pair in pairs]])
    return drawn


def check_scores_again(
    subject: Subject, context: ModelContext, share: float, seed: int, report: Callable[[str], None]
) -> Iterator[Check]:
    """Score a share of the trajectories of every job again, and compare the logits.

    Parameters
    ----------
    subject : Subject
    context : ModelContext
    share : float
        The share of trajectories, in (0, 1]. At least 5 are drawn of each job.
    seed : int
        The seed of the verification.
    report : callable
        Takes a line about the progress.
    """
    flaws: list[Flaw] = []
    unknown: dict[ArtifactRef, str] = {}
    trajectories, prefixes, apart, widest = 0, 0, 0.0, 0.0
    jobs = sorted(score_jobs(subject), key=lambda job: job.labels.prm)  # Each PRM is loaded once.
    for job in jobs:
        reference = job.shards[0].parameters.prm
        why = unlike("prm", reference, job.shards[0].identity.get("prm", {}))
        if why:
            unknown |= dict.fromkeys(job.refs, why)
            continue
        report(f"scoring {job.labels} again")
        try:
            count, found = _differences(subject, context, job, share, seed)
        except PrmcalError as error:
            unknown |= dict.fromkeys(job.refs, excerpt(str(error), 200).rstrip("."))
            continue
        tolerance, allowed = tolerance_of(reference)
        beyond = ~(found <= tolerance)
        trajectories += count
        prefixes += len(found)
        apart = max([apart, *found[~np.isnan(found)]])
        widest = max(widest, tolerance)
        if beyond.sum() > allowed * len(found):
            flaws.append(
                Flaw(
                    f"{job.labels}: {beyond.sum()} of {len(found)} logits differ by more than {tolerance:g}, by up to "
                    f"{np.nanmax(found):.3g}",
                    job.refs,
                )
            )
    if prefixes or not unknown:
        yield concluded(
            subject,
            "scored again",
            "scores",
            prefixes,
            flaws,
            f"The logits of {counted(prefixes, 'prefix', 'prefixes')} of "
            f"{counted(trajectories, 'trajectory', 'trajectories')} differ "
            f"by at most {apart:.2g} (allowed: {widest:g}). {_found_with(trajectories)}",
        )
    if unknown:
        first, why = next(iter(unknown.items()))
        cells = subject.cells_behind(unknown)
        told = f"{counted(len(unknown), 'artifact')} with scores. {subject.plan.job_of(first).labels}: {why}."
        yield not_made("scored again", "scores without a PRM or texts", told, passed=False, cells=cells)


def _found_with(trajectories: int) -> str:
    """Say with which probability a forger is found who altered a share f of the trajectories: 1 - (1 - f)^m."""
    chances = " and ".join(f"{1 - (1 - share) ** trajectories:.0%} (of {share:.0%})" for share in _ALTERED)
    return f"Altered scores of a share of the trajectories are found with a probability of {chances}."


def _differences(
    subject: Subject, context: ModelContext, job: Job[ScoreParameters], share: float, seed: int
) -> tuple[int, NDArray[np.float64]]:
    """Return the number of drawn trajectories, and the absolute differences of the logits of their prefixes.

    A difference is NaN where only one of the two is too long.
    """
    found: list[NDArray[np.float64]] = []
    trajectories = 0
    for shard, table in zip(job.shards, drawn_trajectories(subject, job, share, seed), strict=True):
        if len(table):
            trajectories += len(table[["question_id", "trajectory"]].drop_duplicates())
            found.append(_of_shard(context, shard, table))
    return trajectories, np.concatenate(found) if found else np.empty(0)


def _of_shard(
    context: ModelContext, shard: Shard[ScoreParameters], table: pd.DataFrame
) -> NDArray[np.float64]:
    reference = shard.parameters.prm
    questions = {each.id: each.text for each in context.questions(shard.parameters.data)}
    texts = context.table(shard, "rollout", "trajectories").set_index(["question_id", "trajectory"])["text"]
    groups = list(table.groupby(["question_id", "trajectory"], sort=False))
    requests = [ScoringRequest(questions[key[0]], (tuple(split_steps(texts[key])),)) for key, _ in groups]
    with plugin_guard("prm", reference.name, "score"):
        prm = context.prm(reference)
        scored = patiently(prm, lambda: prm.score_batch(requests))
        for request, each in zip(requests, scored, strict=True):
            check_scores(each[0], len(request.trajectories[0]))
    parts: Sequence[NDArray[np.float64]] = [
        _apart(own["logit"].to_numpy(np.float64), np.asarray(each[0].logit, dtype=np.float64))
        for (_, own), each in zip(groups, scored, strict=True)
    ]
    return np.concatenate(parts)


def _apart(stored: NDArray[np.float64], computed: NDArray[np.float64]) -> NDArray[np.float64]:
    if stored.shape != computed.shape:
        return np.full(len(stored), np.nan)
    both = np.isnan(stored) & np.isnan(computed)
    return np.where(both, 0.0, np.abs(stored - computed))
