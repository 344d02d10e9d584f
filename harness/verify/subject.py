"""What is verified: the plan, the artifacts and the cells of a bundle or of the folder of a run, and its flaws."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.db.metrics import Tier
from prmcal.db.text.formats import counted
from prmcal.harness.execution.ending import read_failures
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import HiddenParameters, Parameters
from prmcal.harness.planning.plan import with_inputs
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.bundle import SUBMISSION_FILE, Submission
from prmcal.harness.share.checks import check_unpacked, unpack
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.messages import excerpt

_SHOWN = 3
"""Findings that the message of a check has."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that is wrong."""

    message: str
    """A sentence without a full stop."""
    refs: tuple[ArtifactRef, ...] = ()
    """The artifacts that it concerns, and with them the cells that they decide."""
    cells: tuple[str, ...] = ()
    """The ids of further cells that it concerns."""


class Subject:
    """A folder whose results are verified, and what is in it.

    Parameters
    ----------
    directory : Path
        The folder of a run, or an unpacked bundle, whose files match its list.
    submission : Submission or None
        What a bundle says of itself; None for the folder of a run.

    Attributes
    ----------
    plan, record, store
    manifests : dict of ArtifactRef to Manifest
        The artifacts of the plan whose files match their manifests.
    failed : set of str
        The keys of shards that are said to have failed.
    """

    def __init__(self, directory: Path, submission: Submission | None = None) -> None:
        self.submission = submission
        self.record = RunFolder(directory).record()
        self.plan = read_plan(directory, self.record.grid)
        self.store = Store(directory)
        self.manifests = self.store.manifests(shard.ref for shard in self.plan.shards())
        self.failed = set(read_failures(directory))

    def jobs_here(self, kind: type[Parameters]) -> list[Job[Any]]:
        """Return the jobs of a kind whose artifacts are all here, each once."""
        jobs = {job.key: job for job in self.plan.jobs_of(kind)}
        return [job for job in jobs.values() if all(ref in self.manifests for ref in job.refs)]

    def shards_here(self, kind: type[Parameters]) -> list[Shard[Any]]:
        """Return the shards of the jobs of a kind whose artifacts are all here."""
        return [shard for job in self.jobs_here(kind) for shard in job.shards]

    def missing(self) -> list[ArtifactRef]:
        """Return the artifacts that are absent or damaged and that no failure explains.

        Hidden states are left out of bundles, since no result is computed from them.
        """
        excused = set(self.failed)
        found = []
        for shard in self.plan.shards():
            blocked = any(ref.key in excused for refs in shard.inputs.values() for ref in refs)
            if blocked or shard.ref.key in excused:
                excused.add(shard.ref.key)
            elif shard.ref not in self.manifests and not isinstance(shard.parameters, HiddenParameters):
                found.append(shard.ref)
        return found

    def cells_behind(self, refs: Iterable[ArtifactRef]) -> tuple[str, ...]:
        """Return the ids of the cells that some artifacts decide, in the order of the plan."""
        keys = {job.key for ref in refs for job in self.plan.owners(ref)}
        return tuple(
            cell.cell_id
            for cell in self.plan.cells
            if any(job.key in keys for job in with_inputs([cell.job]))
        )

    def checked(self, tier: Tier, name: str, n: int, flaws: Iterable[Flaw], passed: str) -> Check:
        """Return a check: failed with its first flaws, or passed with the message `passed`.

        Parameters
        ----------
        tier, name, n
            As in :class:`prmcal.harness.share.verify_record.Check`.
        flaws : iterable of Flaw
        passed : str
            What was found if there are no flaws, in sentences.
        """
        found = list(flaws)
        if not found:
            return Check(tier, name, True, n, passed)
        lines = list(dict.fromkeys(excerpt(each.message) for each in found))
        more = len(lines) - _SHOWN
        message = " ".join(f"{line}." for line in lines[:_SHOWN])
        if more > 0:
            message += f" There are {counted(more, 'other finding')}."
        cells = {cell for each in found for cell in each.cells}
        cells |= set(self.cells_behind({ref for each in found for ref in each.refs}))
        named = tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in cells)
        return Check(tier, name, False, n, message, named)

    def unchecked(self, tier: Tier, name: str, unknown: Mapping[ArtifactRef, str]) -> list[Check]:
        """Return a check that could not be made for some artifacts, by the reasons; none without artifacts.

        It does not pass, so their cells do not reach the tier.
        """
        if not unknown:
            return []
        first, why = next(iter(unknown.items()))
        message = (
            f"Not checked: {counted(len(unknown), 'artifact')}. {self.plan.job_of(first)}: {why.rstrip('.')}."
        )
        return [Check(tier, name, False, 0, message, self.cells_behind(unknown))]


@contextmanager
def opened(path: Path, allowed_signers: Path | None = None) -> Iterator[Subject]:
    """Open a bundle, an unpacked bundle or the folder of a run. A bundle is unpacked into a temporary folder.

    Raises a PrmcalError if the bundle is damaged, altered or of a newer format, or the folder has no run.

    Parameters
    ----------
    path : Path
    allowed_signers : Path, optional
        A file of allowed signers in the format of OpenSSH, which gives keys their names.
    """
    if path.is_dir():
        is_bundle = (path / SUBMISSION_FILE).exists()
        yield Subject(path, check_unpacked(path, allowed_signers) if is_bundle else None)
        return
    with tempfile.TemporaryDirectory(prefix="prmcal-verify-") as temporary:
        folder = Path(temporary) / "bundle"
        yield Subject(folder, unpack(path, folder, allowed_signers))
