"""Submissions that are merged: from runs, bundles and merged leaderboards, and records of verifications.

A merged leaderboard has the layout of a run's folder, and besides:

    submissions/<id>/         each submission, as its bundle is unpacked
    verifications/<id>.json

``artifacts/`` follows from the submissions, whose files are linked there where the disk allows it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from prmcal.db.metrics import Tier
from prmcal.db.run_folder import RECORD_FILE, artifacts_root
from prmcal.errors import BundleError, RunError
from prmcal.harness.execution.ending import Failure, read_failures
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share import bundle
from prmcal.harness.share.checks import check_run_files, check_unpacked, submission_of, unpack
from prmcal.harness.share.writing import bundled
from prmcal.harness.storage import store
from prmcal.harness.storage.folder import RunFolder, RunRecord, check_text, check_time
from prmcal.registry.messages import reading


def submissions_root(directory: Path) -> Path:
    """Return the folder of all submissions, whether it exists or not."""
    return directory / "submissions"


def verifications_root(directory: Path) -> Path:
    """Return the folder of all records of verifications, whether it exists or not."""
    return directory / "verifications"


def is_merged(directory: Path) -> bool:
    """Return whether a folder is a merged leaderboard, also if it was not finished."""
    return submissions_root(directory).is_dir()


@dataclass(frozen=True, eq=False)
class Submitted:
    """A submission, read."""

    submission: bundle.Submission
    folder: Path
    """The unpacked bundle."""
    record: RunRecord
    """The run that measured it."""
    plan: Plan
    """Its cells and all jobs behind them."""
    failures: Mapping[str, Failure]
    """The reasons why shards failed, by their keys."""
    contents: Mapping[store.ArtifactRef, str]
    """The digests of the contents of its artifacts; empty for one that it leaves out."""

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


def read_inputs(paths: Sequence[Path], scratch: Path) -> tuple[list[Submitted], list[Path]]:
    """Read and check everything that is merged, before anything of it is merged.

    The paths are folders of runs, bundles, unpacked bundles, merged leaderboards, and records of verifications.
    `scratch` is an empty folder, in which each submission gets a folder of its own. Returns the submissions and the
    paths of the records. Raises a PrmcalError if one of them is something else, or is damaged or altered.
    """
    submissions: list[Submitted] = []
    verifications: list[Path] = []
    for path in paths:
        if path.is_file() and path.suffix == ".json":
            verifications.append(path)
            continue
        sources = [path]
        if is_merged(path):
            sources = _submission_folders(path)
            verifications += sorted(verifications_root(path).glob("*.json"))
        for source in sources:
            folder = scratch / str(len(submissions))
            _put(source, folder)
            submissions.append(_read(folder, str(source)))
    return submissions, verifications


def merged_submissions(directory: Path) -> list[Submitted]:
    """Return the submissions of a merged leaderboard, sorted by their ids.

    Raises a BundleError if one of them is damaged.
    """
    return [_read(folder, str(folder)) for folder in _submission_folders(directory)]


def _submission_folders(directory: Path) -> list[Path]:
    root = submissions_root(directory)
    return sorted(root.iterdir()) if root.is_dir() else []


def _put(source: Path, folder: Path) -> None:
    """Check a bundle, unpacked or not, or a run, and make a new folder with the files of its submission."""
    if source.is_file():
        unpack(source, folder)
        return
    if (source / bundle.SUBMISSION_FILE).exists():
        names = [*check_unpacked(source).files, bundle.SUBMISSION_FILE, bundle.SIGNATURE_FILE]
        entries: dict[str, Path | bytes] = {name: source / name for name in names if (source / name).exists()}
    elif (source / RECORD_FILE).exists():
        # The submission that a run is: its finished and its failed cells, with all texts.
        entries = bundled(source, None, bundle.About(), texts=True, models=True, unfinished=True).entries
    else:
        raise RunError(
            f"{source} is not the folder of a run, a bundle, a merged leaderboard or the record of a verification. "
            "Nothing was merged."
        )
    with store.storage_errors(folder):
        for name, content in entries.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                store.link_or_copy(content, target)
    check_run_files(folder, str(source))


def _read(folder: Path, where: str) -> Submitted:
    with reading(f"The submission {where} cannot be read", kind=BundleError):
        submission = submission_of(folder, where)
        record = RunFolder(folder).record()
        plan = read_plan(folder, record.grid)
        if not plan.cells:
            raise BundleError(f"{where} has no cells.")
        return Submitted(submission, folder, record, plan, read_failures(folder), _contents(submission))


def _contents(submission: bundle.Submission) -> dict[store.ArtifactRef, str]:
    """Return a digest of each artifact: equal with and without texts, and however it was written.

    It is empty if the bundle leaves out the whole artifact.
    """
    found: dict[store.ArtifactRef, dict[str, str]] = defaultdict(dict)
    for path, file in submission.files.items():
        top, *rest = path.split("/", 3)
        if top == artifacts_root(Path()).name:
            kind, key, name = rest
            own = found[store.ArtifactRef(kind, key)]
            if name != store.MANIFEST_FILE:  # It has seconds.
                own[name] = file.table or file.sha256
    return {ref: store.content_key(own) if own else "" for ref, own in found.items()}


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check."""

    tier: Tier
    check: str
    """Its name, such as "results computed again"."""
    passed: bool
    """False if it found something wrong, and if it could not be made although the tier needs it."""
    n: int
    """The number of checked artifacts, rows, questions or prefixes, as the message says. 0 if it could not be made."""
    message: str
    """The findings, in sentences."""
    cells: tuple[str, ...] = ()
    """The ids of the cells that the findings concern; empty if it passed."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a verification."""

    submission: str
    """The id of the submission; empty for the folder of a run."""
    tier: Tier
    """The highest tier that was tried."""
    passed: bool
    """True if every check of this tier and of those before it passed."""
    verified_by: str
    """The name that the verifier gave."""
    verified_at: str
    """The time in UTC, in ISO format."""
    prmcal_version: str
    """The version of prmcal that verified it."""
    seed: int
    """The seed of random choices. The verifier draws it, so a submitter cannot know what is checked."""
    checks: tuple[Check, ...]

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def text(self) -> str:
        """Return the JSON text of the record. Equal verifications have equal texts."""
        return json.dumps({"format": bundle.FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def write_verification(path: Path, verification: Verification) -> None:
    """Write the record to a file, whose texts are UTF-8.

    Raises a DataError if the name of the verifier cannot be written, and a StorageError if the file cannot.
    """
    with reading(f"The record {path} cannot be written", "Write the name in UTF-8."):
        check_text("verified_by", verification.verified_by)
    store.write_atomically(path, verification.text())


def read_verification(path: Path) -> Verification:
    """Read the record of a verification.

    Raises a DataError if the file cannot be read, is of a newer format, or is no record of a verification.
    """
    with reading(f"{path} is no verification", "Write it again with prmcal verify --out."):
        found = bundle.read_formatted(path.read_bytes(), Verification, f"The verification {path}")
        check_time("verified_at", found.verified_at)
        if found.passed and not all(each.passed for each in found.checks):
            raise ValueError("it says that it passed, but one of its checks did not")
    return found


def read_verifications(paths: Iterable[Path]) -> dict[str, tuple[Path, Verification]]:
    """Read records by their ids: the first 12 hexadecimal digits of the SHA-256 of their files, in their order."""
    found = [(path, read_verification(path)) for path in paths]
    by_id = {store.file_sha256(path)[:12]: (path, each) for path, each in found}
    return {name: by_id[name] for name in sorted(by_id)}
