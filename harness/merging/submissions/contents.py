"""What an artifact contains, independent of how its files are written and of the parts that a submission lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from prmcal.errors import BundleError
from prmcal.harness.bundles import BundledFile, Submission, table_digests
from prmcal.harness.storage.store import MANIFEST_FILE, ArtifactRef, content_key, file_sha256

__all__ = ["Listed", "check_files", "contents_of", "listed_files"]

Listed = Mapping[str, tuple[BundledFile, ...]]
"""The files of an artifact by their names: as a submission has it, and as the run had it if something was left out."""

_TOP = "artifacts"
_NOT_CONTENT = (MANIFEST_FILE, "text_hashes.parquet")
"""Files that tell seconds, or follow from other files."""


def listed_files(submission: Submission) -> dict[ArtifactRef, Listed]:
    """Return what a submission says of the files of each artifact that it has.

    An artifact that was left out as a whole, such as hidden states, is not among them.
    """
    found: dict[ArtifactRef, dict[str, tuple[BundledFile, ...]]] = {}
    for ref, name, file in _files(submission.files):
        found.setdefault(ref, {})[name] = (file,)
    for ref, name, file in _files(submission.left_out):
        if ref in found:
            found[ref][name] = (*found[ref].get(name, ()), file)
    return dict(found)


def contents_of(submission: Submission) -> dict[ArtifactRef, str]:
    """Return a digest of the content of each artifact of a submission.

    The digest follows from the values of the columns of tables, and from the bytes of other files. What was left out of
    a bundle counts as if it was there. So equal results have equal digests, with and without texts and models.
    """
    return {
        ref: content_key({name: _described(files[name]) for name in files if name not in _NOT_CONTENT})
        for ref, files in listed_files(submission).items()
    }


def check_files(listed: Listed, files: Mapping[str, Path | bytes], where: str) -> None:
    """Check that the files of an artifact have the content that a submission says.

    Raises
    ------
    BundleError
        If a file has other bytes and other values, or is not known to the submission.
    """
    for name, source in files.items():
        if name == MANIFEST_FILE:
            continue
        told = listed.get(name, ())
        digest = sha256(source).hexdigest() if isinstance(source, bytes) else file_sha256(source)
        if digest in {file.sha256 for file in told}:
            continue
        if not _has_columns(told, source):
            raise BundleError(
                f"{where}: {name} is not the file that was submitted. Ask for the submission again."
            )


def _files(files: Mapping[str, BundledFile]) -> Iterator[tuple[ArtifactRef, str, BundledFile]]:
    for path, file in files.items():
        top, *rest = PurePosixPath(path).parts
        if top == _TOP and len(rest) > 2:
            yield ArtifactRef(rest[0], rest[1]), "/".join(rest[2:]), file


def _described(told: tuple[BundledFile, ...]) -> Any:
    original = told[-1]
    if original.table is None:
        return original.sha256
    columns = {name: digest for file in told if file.table for name, digest in file.table.columns.items()}
    return {"rows": original.table.rows, "columns": columns}


def _has_columns(told: tuple[BundledFile, ...], source: Path | bytes) -> bool:
    """Return whether a table has only columns that are known, with the values that are known."""
    if not told or told[-1].table is None or isinstance(source, bytes):
        return False
    found, known = table_digests(source), _described(told)
    return bool(found.rows == known["rows"] and found.columns.items() <= known["columns"].items())
