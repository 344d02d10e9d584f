"""From the folders and files that are merged to submissions: runs, bundles, merged leaderboards and verifications."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prmcal.db.run_folder import RECORD_FILE, artifacts_root
from prmcal.errors import RunError
from prmcal.harness.bundles import About, bundled, check_unpacked, unpack
from prmcal.harness.bundles.contents import intact_manifests
from prmcal.harness.bundles.format import SUBMISSION_FILE
from prmcal.harness.execution.failures import failed_cells, read_failures
from prmcal.harness.merging.submissions.contents import check_files, listed_files
from prmcal.harness.merging.submissions.folder import (
    incoming,
    is_merged,
    submission_folders,
    verifications_root,
)
from prmcal.harness.merging.submissions.places import conflicts_of, stored
from prmcal.harness.merging.submissions.submitted import FilesOf, Submitted, read_submitted
from prmcal.harness.planning.columns import check_columns
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store, storage_errors

__all__ = ["Given", "merged_submissions", "read_inputs"]


@dataclass
class Given:
    """What is merged.

    Attributes
    ----------
    submissions : list of Submitted
    verifications : list of Path
        The records of verifications.
    """

    submissions: list[Submitted] = field(default_factory=list)
    verifications: list[Path] = field(default_factory=list)


def read_inputs(paths: Sequence[Path], out: Path) -> Given:
    """Read and check everything that is merged, before anything of it is merged.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs, bundles, unpacked bundles, merged leaderboards, and records of verifications.
    out : Path
        The merged leaderboard, in which bundles are unpacked.

    Raises
    ------
    PrmcalError
        If one of them is something else, or is damaged or altered.
    """
    found = Given()
    for number, path in enumerate(paths):
        scratch = incoming(out) / str(number)
        if path.is_file() and path.suffix == ".json":
            found.verifications.append(path)
        elif path.is_file():
            unpack(path, scratch)
            found.submissions.append(read_submitted(scratch, _folder_files(scratch), str(path)))
        elif is_merged(path):
            if path.resolve() != out.resolve():
                found.submissions += _checked(merged_submissions(path), path)
                found.verifications += sorted(verifications_root(path).glob("*.json"))
        elif (path / SUBMISSION_FILE).exists():
            check_unpacked(path)
            found.submissions.append(read_submitted(path, _folder_files(path), str(path)))
        elif (path / RECORD_FILE).exists():
            found.submissions.append(_of_run(path, scratch))
        else:
            raise RunError(
                f"{path} is not the folder of a run, a bundle, a merged leaderboard or the record of a verification. "
                "Nothing was merged."
            )
    return found


def merged_submissions(directory: Path) -> list[Submitted]:
    """Return the submissions of a merged leaderboard.

    Raises
    ------
    BundleError
        If one of them is damaged.
    """
    files = _MergedFiles(directory)
    found = [
        read_submitted(folder, files.of(folder.name), f"{folder.name} in {directory}")
        for folder in submission_folders(directory)
    ]
    files.know(found)
    return found


class _MergedFiles:
    """Where a merged leaderboard has the artifacts of its submissions. It is known when all of them were read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._conflicts: dict[ArtifactRef, str] = {}
        self._submissions: dict[str, Submitted] = {}

    def know(self, submissions: Iterable[Submitted]) -> None:
        self._submissions = {each.submission_id: each for each in submissions}
        self._conflicts = conflicts_of(self._submissions.values())

    def of(self, submission_id: str) -> FilesOf:
        def files(ref: ArtifactRef) -> Mapping[str, Path | bytes]:
            place = stored(self._submissions[submission_id], ref, self._conflicts)
            return _artifact_files(self._directory, place)

        return files


def _checked(submissions: list[Submitted], path: Path) -> list[Submitted]:
    for each in submissions:
        check_columns(each.plan, f"{path}, submission {each.submission_id}", "Ask for the leaderboard again.")
        for ref, listed in listed_files(each.submission).items():
            check_files(listed, each.files_of(ref), f"{path}, {ref.kind}/{ref.key}")
    return submissions


def _of_run(path: Path, scratch: Path) -> Submitted:
    """Make the submission that the folder of a run is: its finished and its failed cells, with all texts."""
    folder = RunFolder(path)
    folder.record()
    plan, store = existing_plan(folder), Store(path)
    check_columns(plan, str(path), "Run the grid again: finished work is kept.")
    there = intact_manifests(store, (ref for cell in plan.cells for ref in cell.job.refs))
    failed = failed_cells(plan, read_failures(path))
    cells = [
        cell.cell_id
        for cell in plan.cells
        if cell.cell_id in failed or all(ref in there for ref in cell.job.refs)
    ]
    if not cells:
        raise RunError(f"{path} has no finished cell yet. `prmcal status {path}` shows its progress.")
    made = bundled(path, cells, About(), texts=True, models=True)
    root = artifacts_root(Path()).as_posix() + "/"
    artifacts: dict[ArtifactRef, dict[str, Path | bytes]] = {}
    with storage_errors(scratch):
        scratch.mkdir(parents=True)
        for name, content in made.entries.items():
            if name.startswith(root):
                kind, key, file = name.removeprefix(root).split("/", 2)
                artifacts.setdefault(ArtifactRef(kind, key), {})[file] = content
            elif isinstance(content, bytes):
                (scratch / name).write_bytes(content)
            else:
                shutil.copyfile(content, scratch / name)
    return read_submitted(scratch, artifacts.__getitem__, str(path))


def _folder_files(directory: Path) -> FilesOf:
    return lambda ref: _artifact_files(directory, ref)


def _artifact_files(directory: Path, ref: ArtifactRef) -> Mapping[str, Path | bytes]:
    store = Store(directory)
    folder = store.folder(ref.kind, ref.key)
    if store.manifest(ref.kind, ref.key, verify=False) is None:
        raise RunError(
            f"The artifact {folder} is {'damaged' if folder.exists() else 'missing'}. Merge the submissions again that "
            f"it came with: prmcal merge {directory} DIR_OR_BUNDLE"
        )
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
