"""The format of a bundle: a zip file with a manifest, submission.json, which lists all other files with their hashes.

Entries are stored without compression, so a bundle is as large as what it holds, and it cannot hold a bomb. They are
in the order of their names, and have one date and one mode, so that equal results give equal bytes. The program
`ssh-keygen` signs the manifest and checks signatures: it knows keys with a passphrase, in an agent or on a token.
"""

import hashlib
import io
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

from prmcal.errors import BundleError, PrmcalError
from prmcal.harness.storage.folder import check_text, one_problem
from prmcal.harness.storage.store import file_sha256
from prmcal.registry.messages import excerpt, reading, shown

FORMAT = 1
"""The version of bundles and of records of verifications. A later version of prmcal raises it when it writes what this
one cannot read."""
Read = TypeVar("Read")
SUBMISSION_FILE, SIGNATURE_FILE = "submission.json", "submission.json.sig"

_LONGEST_TEXT = 10_000
_ADDED = ("submission_id", "signed_by")
"""Fields of a submission that are not in submission.json."""
_DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*", re.ASCII)
_LONGEST_NAME = 200
_CHUNK = 2**20
_AGAIN = "It was cut off or altered, or prmcal did not write it. Ask the submitter for it again."


@dataclass(frozen=True)
class About:
    """The words of a submitter on a submission.

    Raises a BundleError if one of them is too long, or cannot be written as UTF-8.
    """

    submitter: str = ""
    """A name, such as that of a person or a laboratory."""
    licence: str = ""
    """The licence of the results, such as ``CC-BY-4.0``."""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("submitter", "licence", "note"):
            text = getattr(self, name)
            if len(text) > _LONGEST_TEXT:
                raise BundleError(
                    f"The {name} is too long: it has {len(text):,} characters, and {_LONGEST_TEXT:,} are the most."
                )
            with reading("A text of a submission cannot be written", "Write it in UTF-8.", BundleError):
                check_text(name, text)


@dataclass(frozen=True)
class BundledFile:
    """A file of a bundle."""

    size: int
    """Bytes."""
    sha256: str
    """64 hexadecimal digits."""
    table: str | None = None
    """The digest of the table in a Parquet file; None for another file."""


def described(content: bytes, table: str | None = None) -> BundledFile:
    """Return what a bundle says of a file with these bytes."""
    return BundledFile(len(content), hashlib.sha256(content).hexdigest(), table)


@dataclass(frozen=True, kw_only=True)
class Submission(About):
    """The content of submission.json, by which a bundle describes itself."""

    texts: bool
    """True if the bundle has the texts of questions and trajectories, and the reference answers."""
    models: bool
    """True if it has the fits that change the PRM."""
    prmcal_version: str
    """The version of prmcal that wrote the bundle."""
    files: Mapping[str, BundledFile]
    """All files of the bundle except submission.json and its signature, by their names."""
    signed_by: str | None = None
    """The fingerprint of the key of its valid signature, such as ``SHA256:...``; None if it is not signed."""

    @cached_property
    def submission_id(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of the bytes of submission.json."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:12]

    def to_bytes(self) -> bytes:
        """Return the bytes of submission.json. Equal submissions have equal bytes."""
        content = {name: value for name, value in vars(self).items() if name not in _ADDED}
        text = json.dumps({"format": FORMAT, **content}, default=vars, sort_keys=True, separators=(",", ":"))
        return text.encode() + b"\n"


def read_formatted(content: bytes, kind: type[Read], where: str) -> Read:
    """Read JSON data that say their format, as a dataclass. `where` is what they are part of, for the messages.

    Raises a BundleError if they are of a later format, and another error if a field is absent or has another type.
    """
    from pydantic import TypeAdapter

    data = json.loads(content)
    version = data.pop("format", None) if isinstance(data, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError(f"it says no format. Got {shown(version)}")
    if version > FORMAT:
        raise BundleError(
            f"{where} has format {version}, and this version of prmcal reads format {FORMAT}. Install a later one."
        )
    with one_problem():
        return TypeAdapter(kind).validate_json(json.dumps(data), strict=True)


def read_submission(content: bytes, where: str) -> Submission:
    """Read submission.json. `where` is what it is part of, for the messages.

    Raises a BundleError if it is damaged, has a value of another type, or is of a later format.
    """
    with reading(f"{SUBMISSION_FILE} of {where} cannot be read", kind=BundleError):
        found = read_formatted(content, Submission, where)
    # Then no two programs can read different things from the same bytes, for example from a name that is there twice.
    if found.to_bytes() != content:
        raise BundleError(f"{SUBMISSION_FILE} of {where} is not written as prmcal writes it.")
    return found


def write_archive(entries: Mapping[str, Path | bytes], file: BinaryIO) -> None:
    """Write a bundle to an open file, from its files by their names. A path is read when it is written."""
    names = sorted(entries)
    with reading("The bundle cannot be written", kind=BundleError):
        _check_names(names)
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            content = entries[name]
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = 0o100644 << 16
            entry.file_size = content.stat().st_size if isinstance(content, Path) else len(content)
            with (
                content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as source,
                archive.open(entry, "w") as target,
            ):
                shutil.copyfileobj(source, target, _CHUNK)


def extract(bundle: Path, folder: Path) -> dict[str, BundledFile]:
    """Write the entries of a bundle into a folder, which is empty. Return the size and the hash of each by its name.

    Raises a BundleError if the file is no zip file, or has compressed entries or odd names. Files may be in the folder
    then.
    """
    found: dict[str, BundledFile] = {}
    with reading(f"{bundle} is not a bundle", _AGAIN, BundleError), zipfile.ZipFile(bundle) as archive:
        entries = archive.infolist()
        _check_names([entry.orig_filename for entry in entries])
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("it has an entry that is compressed")
        if sum(entry.file_size for entry in entries) > bundle.stat().st_size:
            raise ValueError("its entries are larger than itself")
        for entry in entries:
            target = folder / entry.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file, _CHUNK)
            found[entry.filename] = BundledFile(target.stat().st_size, file_sha256(target))
    return found


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise ValueError(f"it has an entry with the name {shown(name)}")
    if len({name.casefold() for name in names}) != len(names):
        raise ValueError("it has two entries with one name")
    if list(names) != sorted(names):
        raise ValueError("its entries are not in order")


_PROGRAM = "ssh-keygen"
_NAMESPACE = "prmcal"
"""The purpose of the signatures. A signature for another purpose, such as that of a git commit, is not accepted."""
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_SECONDS = 60
"""A check waits for nobody. Signing may wait for a passphrase or a touch."""


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of some bytes.

    The key is a private key, or a public key whose private key is in the agent. Raises a PrmcalError if it cannot be
    used, or OpenSSH is not installed.
    """
    path = key.expanduser()
    if not path.is_file():
        raise PrmcalError(f"There is no key {key}. Make one: ssh-keygen -t ed25519 -f {key}")
    done = _run(["sign", "-q", "-f", str(path)], content, None)
    if done.returncode or not done.stdout:
        raise PrmcalError(f"{_PROGRAM} cannot sign with the key {key}: {_said(done)}")
    return done.stdout


def signer_of(content: bytes, signature: bytes, where: str) -> str:
    """Return the fingerprint of the key that signed some bytes, such as ``SHA256:...``.

    `where` is what is signed, for the messages. Raises a BundleError if the signature is not valid for these bytes, or
    OpenSSH is not installed.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        done = _run(["check-novalidate", "-s", file.name], content, _SECONDS)
    found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
    if done.returncode or not found:
        raise BundleError(
            f"The signature of {where} is not valid: {_said(done)} Ask the submitter for the bundle again."
        )
    return found[0]


def _run(arguments: list[str], content: bytes, seconds: float | None) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which(_PROGRAM)
    if program is None:
        raise BundleError(f"Signatures need the program {_PROGRAM}. Install OpenSSH, such as openssh-client.")
    action, *others = arguments
    command = [program, "-Y", action, "-n", _NAMESPACE, *others]
    try:
        return subprocess.run(command, input=content, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BundleError(f"{_PROGRAM} failed: {excerpt(str(error))}") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    text = excerpt((done.stderr or done.stdout).decode(errors="replace")) or "it gave no reason"
    return text if text.endswith(".") else f"{text}."
