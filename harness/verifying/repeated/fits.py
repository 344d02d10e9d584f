"""Fits repeated: calibrators are fitted to the calibration questions again, and their rewards are computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import CalibratedParameters, FitParameters, HiddenParameters, Parameters
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verifying.consistent.again import unlike_here
from prmcal.harness.verifying.findings import Flaw, concluded, not_made
from prmcal.harness.verifying.repeated.models import LayeredStore, ModelContext, unlike
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.messages import excerpt, message_of

__all__ = ["TOLERANCE", "check_fits", "fits_of"]

TOLERANCE = 1e-4
"""How far a calibrated reward may lie from the stored one. Optimisers stop at other places on other processors."""
_TRAINED = 0.05
"""The same for calibrators that are trained by gradient descent on hidden states or texts."""


def fits_of(subject: Subject, every: bool) -> tuple[list[Job[FitParameters]], list[Job[FitParameters]]]:
    """Return the fits that are repeated, and those that are not because they need the PRM or its hidden states."""
    done: dict[str, Job[FitParameters]] = {}
    left: dict[str, Job[FitParameters]] = {}
    for job in subject.plan.jobs_of(FitParameters):
        trained = bool({"hidden", "rollout"}.intersection(job.shards[0].inputs))
        if job.shards[0].ref.key not in subject.failed:
            (left if trained and not every else done)[job.key] = job
    return list(done.values()), list(left.values())


def check_fits(
    subject: Subject,
    context: ModelContext,
    every: bool,
    report: Callable[[str], None],
) -> Iterator[Check]:
    """Fit calibrators again, and compare the rewards that they give with the stored ones.

    Parameters
    ----------
    subject : Subject
    context : ModelContext
        With a :class:`prmcal.harness.verifying.repeated.models.LayeredStore`, in which the new fits take the place of
        the old ones.
    every : bool
        Whether fits that need the PRM or its hidden states are repeated too.
    report : callable
        Takes a line about the progress.
    """
    done, left = fits_of(subject, every)
    readers = _readers(subject)
    flaws: list[Flaw] = []
    unknown: dict[ArtifactRef, str] = {}
    rewards = 0
    for job in done:
        shard = job.shards[0]
        report(f"fitting {job.labels} again")
        try:
            why = _fitted_again(subject, context, shard)
            if why:
                unknown[shard.ref] = why
                continue
            for reader in readers.get(shard.ref, []):
                rewards += _compare(subject, context, job, reader, flaws)
        except PrmcalError as error:
            unknown[shard.ref] = excerpt(str(error), 200).rstrip(".")
        except Exception as error:  # of numbers that no run writes
            flaws.append(
                Flaw(f"{job}: it cannot be repeated ({excerpt(message_of(error), 150)})", (shard.ref,))
            )
    told = "" if not left else f" {_not_repeated(left)}"
    yield concluded(
        subject,
        "scored again",
        "fits repeated",
        len(done) - len(unknown),
        flaws,
        f"{counted(len(done) - len(unknown), 'calibrator')} give the {counted(rewards, 'stored reward')} when they are "
        f"fitted again, to {TOLERANCE:g} (to {_TRAINED:g} if trained on hidden states or texts).{told}",
    )
    if unknown:
        first, why = next(iter(unknown.items()))
        cells = subject.cells_behind(unknown)
        problem = f"{counted(len(unknown), 'fit')}. {subject.plan.job_of(first).labels}: {why}."
        yield not_made("scored again", "fits that could not be repeated", problem, passed=False, cells=cells)


def _not_repeated(left: list[Job[FitParameters]]) -> str:
    names = ", ".join(dict.fromkeys(job.labels.calibrator for job in left))
    return f"Not repeated, because that costs a training: {counted(len(left), 'fit')} of {names} (see --all-fits)."


def _readers(subject: Subject) -> dict[ArtifactRef, list[Shard[CalibratedParameters]]]:
    found: dict[ArtifactRef, list[Shard[CalibratedParameters]]] = {}
    for job in {job.key: job for job in subject.plan.jobs_of(CalibratedParameters)}.values():
        for shard in job.shards:
            if shard.ref in subject.manifests:
                for ref in shard.inputs["fit"]:
                    found.setdefault(ref, []).append(shard)
    return found


def _fitted_again(subject: Subject, context: ModelContext, shard: Shard[FitParameters]) -> str:
    """Fit a calibrator into the working folder. Return why that is not possible, or nothing."""
    why = unlike_here(shard)
    if not why and {"hidden", "rollout"}.intersection(shard.inputs):
        why = _models_ready(subject, context, shard)
    if why:
        return why
    _write(context, shard)
    return ""


def _models_ready(subject: Subject, context: ModelContext, shard: Shard[Parameters]) -> str:
    """Compute the hidden states that a shard reads, if they are not here.

    Return why that is not possible, or nothing.
    """
    scores = {ref for role, refs in shard.inputs.items() if role == "score" for ref in refs}
    prms = {each.ref: each for each in subject.plan.shards() if each.ref in scores}
    for each in prms.values():
        why = unlike("prm", each.parameters.prm, each.identity.get("prm", {}))  # type: ignore[attr-defined]
        if why:
            return why
    hidden = {
        each.ref: each for each in subject.plan.shards() if isinstance(each.parameters, HiddenParameters)
    }
    for ref in shard.inputs.get("hidden", ()):
        folder = context.store.folder(ref.kind, ref.key)
        if not (folder / "states.safetensors").exists():
            _write(context, hidden[ref])
    return ""


def _write(context: ModelContext, shard: Shard[Parameters]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    assert isinstance(context.store, LayeredStore)
    output = compute(shard, context)

    def fill(folder: Path) -> None:
        for name, frame in output.tables.items():
            parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / f"{name}.parquet")
        if output.save is not None:
            output.save(folder)

    context.store.work.write(shard.ref.kind, shard.ref.key, fill, {"seconds": 0.0})


def _compare(
    subject: Subject,
    context: ModelContext,
    job: Job[FitParameters],
    reader: Shard[CalibratedParameters],
    flaws: list[Flaw],
) -> int:
    """Compare the rewards of a calibrator that was fitted again with the stored ones. Return their number."""
    if "hidden" in reader.inputs or "rollout" in reader.inputs:
        _models_ready(subject, context, reader)
    output = compute(reader, context).tables["calibrated_rewards"]
    stored = subject.store.read(reader.ref.kind, reader.ref.key, "calibrated_rewards").to_pandas()
    tolerance = _TRAINED if {"hidden", "rollout"}.intersection(reader.inputs) else TOLERANCE
    new, old = output["reward"].to_numpy(np.float64), stored["reward"].to_numpy(np.float64)
    beyond = ~(np.abs(new - old) <= tolerance) if new.shape == old.shape else np.ones(len(old), dtype=bool)
    if beyond.any():
        apart = f", by up to {np.nanmax(np.abs(new - old)):.2g}" if new.shape == old.shape else ""
        where = subject.plan.job_of(reader.ref).labels
        flaws.append(
            Flaw(
                f"{job.labels} was fitted to other data: {beyond.sum():,} of {len(old):,} rewards of "
                f"{where.dataset}/{where.split} differ{apart}",
                (reader.ref,),
            )
        )
    return len(old)
