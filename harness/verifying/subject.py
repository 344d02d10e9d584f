"""What is verified: the plan, the artifacts and the cells of a bundle, or of the folder of a run."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prmcal.errors import DataError
from prmcal.harness.execution.failures import read_failures
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import HiddenParameters, Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.bundle import Submission
from prmcal.harness.share.checks import check_unpacked, submission_of, unpack
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import ArtifactRef, Manifest, Store

__all__ = ["Subject", "opened", "read_subject"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A folder whose results are verified.

    Attributes
    ----------
    directory : Path
        The folder of a run, or an unpacked bundle.
    submission : Submission or None
        What a bundle says of itself; None for the folder of a run.
    plan : Plan
    record : RunRecord
    store : Store
    manifests : mapping of ArtifactRef to Manifest
        The artifacts of the plan whose files match their manifests.
    failed : frozenset of str
        The keys of shards that are said to have failed.
    """

    directory: Path
    submission: Submission | None
    plan: Plan
    record: RunRecord
    store: Store
    manifests: Mapping[ArtifactRef, Manifest]
    failed: frozenset[str]
    _readers: Mapping[str, frozenset[str]] = field(repr=False)

    def cells_behind(self, refs: Iterable[ArtifactRef]) -> tuple[str, ...]:
        """Return the ids of the cells that some artifacts decide, in the order of the plan.

        Curves fill no cell. What is wrong with them concerns the cells with the same plugins and data.
        """
        jobs = {job.key for ref in refs for job in self.plan.owners(ref)}
        cells = set().union(*(self._readers.get(key, ()) for key in jobs)) if jobs else set()
        if jobs and not cells:
            labels = [job.labels for job in self.plan.jobs if job.key in jobs]
            cells = {
                cell.cell_id
                for cell in self.plan.cells
                for each in labels
                if (cell.labels.llm, cell.labels.dataset) == (each.llm, each.dataset)
                and each.prm in ("", cell.labels.prm)
                and each.calibrator in ("", cell.labels.calibrator)
            }
        return self.named(cells)

    def named(self, cells: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of cells, each once, in the order of the plan."""
        wanted = set(cells)
        return tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in wanted)

    def present(self, job: Job[Parameters]) -> bool:
        """Return whether all artifacts of a job are here and match their manifests."""
        return all(ref in self.manifests for ref in job.refs)

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


@contextmanager
def opened(path: Path, allowed_signers: Path | None = None) -> Iterator[Subject]:
    """Open a bundle, an unpacked bundle or the folder of a run. A bundle is unpacked into a temporary folder.

    Parameters
    ----------
    path : Path
    allowed_signers : Path, optional
        A file of allowed signers in the format of OpenSSH, which gives keys their names.

    Raises
    ------
    PrmcalError
        If the bundle is damaged, altered or of a newer format, or the folder has no run or no plan with identities.
    """
    if path.is_dir():
        is_bundle = submission_of(path, allowed_signers) is not None
        yield read_subject(path, check_unpacked(path, allowed_signers) if is_bundle else None)
        return
    with tempfile.TemporaryDirectory(prefix="prmcal-verify-") as temporary:
        folder = Path(temporary) / "bundle"
        yield read_subject(folder, unpack(path, folder, allowed_signers))


def read_subject(directory: Path, submission: Submission | None = None) -> Subject:
    """Read the plan and the manifests of a folder, whose files match those of the submission; see :func:`opened`."""
    record = RunFolder(directory).record()
    plan = read_plan(directory, record.grid)
    if plan is None or not all(shard.identity for shard in plan.shards()):
        raise DataError(
            f"The plan in {directory} was saved by an earlier version of prmcal, and does not say what its keys are "
            "made of. Run the grid again with this version: finished work is kept."
        )
    store = Store(directory)
    return Subject(
        directory,
        submission,
        plan,
        record,
        store,
        store.manifests(shard.ref for shard in plan.shards()),
        frozenset(read_failures(directory)),
        _cells_of_jobs(plan),
    )


def _cells_of_jobs(plan: Plan) -> dict[str, frozenset[str]]:
    """Return the cells that each job decides, by the key of the job."""
    found: dict[str, set[str]] = defaultdict(set)
    for cell in plan.cells:
        found[cell.job.key].add(cell.cell_id)
    for job in reversed(plan.jobs):  # Every job follows its inputs.
        for source in job.inputs:
            found[source.key] |= found[job.key]
    return {key: frozenset(cells) for key, cells in found.items()}
