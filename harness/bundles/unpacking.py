"""From a bundle to a folder, after all checks, and the same checks of a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from prmcal.db.run_folder import artifacts_root
from prmcal.errors import BundleError, StorageError
from prmcal.harness.bundles.archive import extract
from prmcal.harness.bundles.format import (
    SIGNATURE_FILE,
    SUBMISSION_FILE,
    BundledFile,
    Submission,
    read_submission,
)
from prmcal.harness.bundles.run_files import LARGEST_JSON, RUN_FILES, check_run
from prmcal.harness.bundles.signatures import signer_of
from prmcal.harness.bundles.tables import digests_of
from prmcal.harness.storage.store import file_sha256, storage_errors
from prmcal.registry.messages import reading

__all__ = ["ABOUT_FILES", "check_unpacked", "submission_of", "unpack"]

ABOUT_FILES = (SUBMISSION_FILE, SIGNATURE_FILE, *RUN_FILES)
"""The files of an unpacked bundle besides its artifacts."""

_LARGEST_SIGNATURE = 2**16
"""Bytes. The signature of the longest RSA key has 4,000."""


def unpack(bundle: Path, folder: Path, allowed_signers: Path | None = None) -> Submission:
    """Check a bundle and write its files into a folder, which then has the layout of a run's folder.

    Parameters
    ----------
    bundle : Path
    folder : Path
        It is new or empty.
    allowed_signers : Path, optional
        A file of allowed signers in the format of OpenSSH, which gives keys their names.

    Raises
    ------
    BundleError
        If the bundle is not exactly what was submitted, or its signature is not valid. The folder is as it was before
        then.
    StorageError
        If the folder holds files, or the disk is full or not writable.
    """
    if not bundle.is_file():
        raise BundleError(f"{bundle} is {'a folder' if bundle.is_dir() else 'no file'}. A bundle is a file.")
    target = folder.resolve()
    with storage_errors(folder):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(
                f"{folder} exists and is not an empty folder. Choose a new folder for the bundle."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            submission = _checked(fresh, extract(bundle, fresh), str(bundle), allowed_signers)
            fresh.chmod(0o755)
            fresh.replace(target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return submission


def check_unpacked(folder: Path, allowed_signers: Path | None = None) -> Submission:
    """Check that a folder has exactly the files of the bundle that was unpacked into it.

    What is there besides the files of a run, such as a database, is not looked at.

    Parameters
    ----------
    folder : Path
    allowed_signers : Path, optional
        See :func:`unpack`.

    Raises
    ------
    BundleError
        If a file was altered, deleted or added, or the signature is not valid.
    """
    with reading(f"{folder} cannot be read", kind=BundleError):
        about = [folder / name for name in ABOUT_FILES]
        paths = [path for path in (*about, *artifacts_root(folder).rglob("*")) if path.is_file()]
        with ThreadPoolExecutor() as pool:
            hashes = list(pool.map(file_sha256, paths))
        found = {
            path.relative_to(folder).as_posix(): BundledFile(path.stat().st_size, sha256)
            for path, sha256 in zip(paths, hashes, strict=True)
        }
    return _checked(folder, found, str(folder), allowed_signers)


def submission_of(folder: Path, allowed_signers: Path | None = None) -> Submission | None:
    """Return what an unpacked bundle says of itself; None for the folder of a run.

    The signature is checked. The files are not compared with their hashes: see :func:`check_unpacked`.

    Raises
    ------
    BundleError
        If its submission.json is damaged, or the signature is not valid.
    """
    if not (folder / SUBMISSION_FILE).exists():
        return None
    return _submission(folder, str(folder), allowed_signers)


def _checked(
    folder: Path, found: Mapping[str, BundledFile], where: str, allowed_signers: Path | None
) -> Submission:
    for name, most in ((SUBMISSION_FILE, LARGEST_JSON), (SIGNATURE_FILE, _LARGEST_SIGNATURE)):
        if name in found and found[name].size > most:
            raise BundleError(f"{where}: {name} is too large to be read.")
    if SUBMISSION_FILE not in found:
        raise BundleError(f"{where} is not a bundle: it has no {SUBMISSION_FILE}.")
    submission = _submission(folder, where, allowed_signers)
    _check_files(submission.files, found, where)
    check_run(folder, submission.files, where)
    tables = [name for name in submission.files if name.endswith(".parquet")]
    for name, digest in digests_of(folder, tables, where):
        if digest != submission.files[name].table:
            raise BundleError(f"{where}: {name} does not have the rows and values that its list says.")
    return submission


def _submission(folder: Path, where: str, allowed_signers: Path | None) -> Submission:
    signature = folder / SIGNATURE_FILE
    with reading(f"{SUBMISSION_FILE} of {where} cannot be read", kind=BundleError):
        content = (folder / SUBMISSION_FILE).read_bytes()
    found = read_submission(content, where)
    if not signature.exists():
        return found
    signer = signer_of(content, signature, where, allowed_signers)
    return replace(found, signed_by=signer.fingerprint, signer=signer.name)


def _check_files(listed: Mapping[str, BundledFile], found: Mapping[str, BundledFile], where: str) -> None:
    """Check that the bundle has the files of its list, and no others."""
    for name in sorted(set(listed) ^ (set(found) - {SUBMISSION_FILE, SIGNATURE_FILE})):
        problem = "lacks a file that its list has" if name in listed else "has a file that its list lacks"
        raise BundleError(f"{where} {problem}: {name}.")
    for name, about in listed.items():
        if replace(about, table=None) != found[name]:
            raise BundleError(f"{where}: {name} has other bytes than its list says.")
