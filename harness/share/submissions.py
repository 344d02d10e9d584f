"""What is merged: submissions from runs, bundles and merged leaderboards, and records of verifications.

A merged leaderboard has the layout of a run's folder, and besides:

    submissions/<id>/submission.json, submission.json.sig, run.json, plan.json, failures.json
    verifications/<id>.json

A submission is there as a whole or not at all. Its artifacts are in ``artifacts/`` before it is there. An artifact has
the address of its key. If submissions have different contents of one key, each content has an address of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from prmcal.db.run_folder import RECORD_FILE, artifacts_root
from prmcal.errors import BundleError, RunError
from prmcal.harness.execution.ending import Failure, read_failures
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import existing_plan, read_plan
from prmcal.harness.share.bundle import SUBMISSION_FILE, About, BundledFile, Submission
from prmcal.harness.share.checks import check_manifest, check_run_files, check_unpacked, submission_of, unpack
from prmcal.harness.share.tables import checked_digests
from prmcal.harness.share.writing import bundled
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import (
    MANIFEST_FILE,
    ArtifactRef,
    Store,
    content_key,
    file_sha256,
    storage_errors,
)
from prmcal.registry.messages import reading

FilesOf = Callable[[ArtifactRef], Mapping[str, Path | bytes]]
"""From an artifact to its files, by their names in its folder."""
_Listed = Mapping[str, tuple[BundledFile, ...]]
"""The files of an artifact by their names: as a submission has it, and as the run had it if something was left out."""
_NOT_CONTENT = (MANIFEST_FILE, "text_hashes.parquet")
"""Files with seconds, and files that follow from other files."""
_DIGITS = 8


def submissions_root(directory: Path) -> Path:
    """Return the folder of all submissions, whether it exists or not."""
    return directory / "submissions"


def verifications_root(directory: Path) -> Path:
    """Return the folder of all records of verifications, whether it exists or not."""
    return directory / "verifications"


def incoming(directory: Path) -> Path:
    """Return the folder for what is not merged yet. A merge that was killed may leave it."""
    return directory / ".incoming"


def submission_folders(directory: Path) -> list[Path]:
    """Return the folders of the merged submissions, sorted by their ids."""
    root = submissions_root(directory)
    return sorted(path for path in root.iterdir() if not path.name.startswith(".")) if root.is_dir() else []


def is_merged(directory: Path) -> bool:
    """Return whether a folder is a merged leaderboard, also if it was not finished."""
    return submissions_root(directory).is_dir()


@dataclass(frozen=True, eq=False)
class Submitted:
    """A submission, read.

    Attributes
    ----------
    submission : Submission
    folder : Path
        The folder with its submission.json, run.json, plan.json and failures.json.
    record : RunRecord
        The run that measured it.
    plan : Plan
        Its cells and all jobs behind them.
    failures : mapping of str to Failure
        Why shards failed, by their keys.
    contents : mapping of ArtifactRef to str
        The digests of the contents of its artifacts, as the run had them.
    files_of : callable
        The files of an artifact that it has.
    """

    submission: Submission
    folder: Path
    record: RunRecord
    plan: Plan
    failures: Mapping[str, Failure]
    contents: Mapping[ArtifactRef, str]
    files_of: FilesOf = field(repr=False)

    @property
    def submission_id(self) -> str:
        """The id of the submission."""
        return self.submission.submission_id

    @property
    def measured_at(self) -> str:
        """When its run ended, or began if that is not known: UTC, in ISO format."""
        return self.record.finished_at or self.record.started_at

    @property
    def place(self) -> tuple[str, str]:
        """Its place among all submissions: the older ones come first."""
        return self.measured_at, self.submission_id

    def is_done(self, cell: Cell) -> bool:
        """Return whether it has the result of a cell."""
        return all(ref in self.contents for ref in cell.job.refs)

    def has_failed(self, cell: Cell) -> bool:
        """Return whether it has a reason why a cell has no result."""
        return not self.is_done(cell) and any(ref.key in self.failures for ref in cell.job.refs)


def stored(submission: Submitted, ref: ArtifactRef, conflicts: Mapping[ArtifactRef, str]) -> ArtifactRef:
    """Return the address of an artifact of a submission where some artifacts have several contents.

    What the submission does not have, because a job failed, has the content of the first submission with it.
    """
    return suffixed(ref, submission.contents.get(ref, conflicts[ref])) if ref in conflicts else ref


def conflicts_of(submissions: Iterable[Submitted]) -> dict[ArtifactRef, str]:
    """Return the artifacts of which submissions have different contents, each with that of the first submission."""
    first: dict[ArtifactRef, str] = {}
    found: dict[ArtifactRef, str] = {}
    for each in submissions:
        for ref, content in each.contents.items():
            if first.setdefault(ref, content) != content:
                found[ref] = first[ref]
    return found


def suffixed(ref: ArtifactRef, content: str) -> ArtifactRef:
    """Return the address of one of several contents of a key."""
    return ArtifactRef(ref.kind, f"{ref.key}-{content[:_DIGITS]}")


def read_inputs(paths: Sequence[Path], out: Path) -> tuple[list[Submitted], list[Path]]:
    """Read and check everything that is merged, before anything of it is merged.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs, bundles, unpacked bundles, merged leaderboards, and records of verifications.
    out : Path
        The merged leaderboard, in which bundles are unpacked.

    Returns
    -------
    submissions : list of Submitted
    verifications : list of Path
        The records of verifications.

    Raises
    ------
    PrmcalError
        If one of them is something else, or is damaged or altered.
    """
    submissions: list[Submitted] = []
    verifications: list[Path] = []
    for number, path in enumerate(paths):
        scratch = incoming(out) / str(number)
        if path.is_file() and path.suffix == ".json":
            verifications.append(path)
        elif path.is_file():
            unpack(path, scratch)
            submissions.append(_read(scratch, _folder_files(scratch), str(path)))
        elif is_merged(path):
            if path.resolve() != out.resolve():
                submissions += _checked(merged_submissions(path), path)
                verifications += sorted(verifications_root(path).glob("*.json"))
        elif (path / SUBMISSION_FILE).exists():
            check_unpacked(path)
            submissions.append(_read(path, _folder_files(path), str(path)))
        elif (path / RECORD_FILE).exists():
            submissions.append(_of_run(path, scratch))
        else:
            raise RunError(
                f"{path} is not the folder of a run, a bundle, a merged leaderboard or the record of a verification. "
                "Nothing was merged."
            )
    return submissions, verifications


def merged_submissions(directory: Path) -> list[Submitted]:
    """Return the submissions of a merged leaderboard.

    Raises
    ------
    BundleError
        If one of them is damaged.
    """
    found: dict[str, Submitted] = {}
    conflicts: dict[ArtifactRef, str] = {}

    def files_of(name: str) -> FilesOf:
        return lambda ref: _artifact_files(directory, stored(found[name], ref, conflicts))

    for folder in submission_folders(directory):
        submitted = _read(folder, files_of(folder.name), f"{folder.name} in {directory}")
        found[folder.name] = submitted
    conflicts |= conflicts_of(found.values())
    return list(found.values())


def plans_in(directory: Path) -> list[tuple[RunRecord, Plan]]:
    """Return the record and the plan of a run, or those of each submission of a merged leaderboard."""
    if is_merged(directory):
        return [(each.record, each.plan) for each in merged_submissions(directory)]
    folder = RunFolder(directory)
    return [(folder.record(), existing_plan(folder))]


def _read(folder: Path, files_of: FilesOf, where: str) -> Submitted:
    """Read a submission from a folder with its submission.json, run.json, plan.json and failures.json."""
    with reading(f"The submission {where} cannot be read", kind=BundleError):
        submission = submission_of(folder)
        if submission is None:
            raise BundleError(f"{where} has no submission.json.")
        record = RunFolder(folder).record()
        plan = read_plan(folder, record.grid)
        if not plan.cells:
            raise BundleError(f"{where} has no cells.")
        contents = {
            ref: content_key({name: _content(files[name]) for name in files if name not in _NOT_CONTENT})
            for ref, files in _listed_files(submission).items()
        }
        return Submitted(submission, folder, record, plan, read_failures(folder), contents, files_of)


def _listed_files(submission: Submission) -> dict[ArtifactRef, _Listed]:
    """Return what a submission says of the files of each artifact that it has at least in part."""
    found: dict[ArtifactRef, dict[str, tuple[BundledFile, ...]]] = {}
    for ref, name, file in _files(submission.files):
        found.setdefault(ref, {})[name] = (file,)
    for ref, name, file in _files(submission.left_out):
        if ref in found:
            found[ref][name] = (*found[ref].get(name, ()), file)
    return dict(found)


def _files(files: Mapping[str, BundledFile]) -> Iterator[tuple[ArtifactRef, str, BundledFile]]:
    for path, file in files.items():
        top, *rest = PurePosixPath(path).parts
        if top == artifacts_root(Path()).name and len(rest) > 2:
            yield ArtifactRef(rest[0], rest[1]), "/".join(rest[2:]), file


def _content(listed: tuple[BundledFile, ...]) -> Any:
    """Return what a file contains, as the run had it: equal with and without texts, and however it was written."""
    original = listed[-1]
    if original.table is None:
        return original.sha256
    columns = {name: digest for file in listed if file.table for name, digest in file.table.columns.items()}
    return {"rows": original.table.rows, "columns": columns}


def _checked(submissions: list[Submitted], path: Path) -> list[Submitted]:
    """Check that the artifacts of a merged leaderboard are those that were submitted, and what a run writes."""
    tables: dict[Path, list[tuple[BundledFile, ...]]] = {}
    for each in submissions:
        check_run_files(each.folder, f"{path}, submission {each.submission_id}")
        for ref, listed in _listed_files(each.submission).items():
            where, own = f"{path}, {ref.kind}/{ref.key}", dict(each.files_of(ref))
            manifest = own.pop(MANIFEST_FILE)
            assert isinstance(manifest, Path)
            files: dict[str, tuple[int, str]] = {}
            for name, source in own.items():
                assert isinstance(source, Path)
                files[name] = source.stat().st_size, file_sha256(source)
                about = listed.get(name, ())
                if about and about[-1].table is not None:
                    tables.setdefault(source, []).append(about)
                elif files[name][1] not in {file.sha256 for file in about}:
                    raise _altered(where, name)
            check_manifest(manifest.read_bytes(), ref.kind, files, where)
    for (source, listings), found in zip(
        tables.items(), checked_digests(list(tables), str(path)), strict=True
    ):
        for about in listings:
            known = _content(about)
            if found.rows != known["rows"] or not found.columns.items() <= known["columns"].items():
                raise _altered(f"{path}, {source.parent.parent.name}/{source.parent.name}", source.name)
    return submissions


def _altered(where: str, name: str) -> BundleError:
    return BundleError(f"{where}: {name} is not the file that was submitted. Ask for the submission again.")


def _of_run(path: Path, scratch: Path) -> Submitted:
    """Make the submission that the folder of a run is: its finished and its failed cells, with all texts."""
    made = bundled(path, None, About(), texts=True, models=True, unfinished=True)
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
    check_run_files(scratch, str(path))
    return _read(scratch, artifacts.__getitem__, str(path))


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
