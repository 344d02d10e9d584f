"""The format of a bundle: what submission.json says, and how it is written and read.

This module reads format 1. A bundle of a later format is refused, because its parts may mean something else. Whoever
adds format 2 reads format 1 into the same `Submission` here, so that old bundles stay readable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from prmcal.errors import BundleError
from prmcal.harness.storage.folder import check_text
from prmcal.registry.messages import reading, shown

__all__ = [
    "FORMAT",
    "SIGNATURE_FILE",
    "SUBMISSION_FILE",
    "About",
    "BundledFile",
    "Submission",
    "TableDigest",
    "read_submission",
]

FORMAT = 1
SUBMISSION_FILE, SIGNATURE_FILE = "submission.json", "submission.json.sig"

_LONGEST_TEXT = 10_000
_ADDED = ("submission_id", "signed_by", "signer")
"""Fields of a submission that are not in submission.json."""


@dataclass(frozen=True)
class About:
    """What a submitter says of a submission.

    Attributes
    ----------
    submitter : str
        A name, such as that of a person or a laboratory.
    licence : str
        The licence of the results, such as ``CC-BY-4.0``.
    note : str

    Raises
    ------
    BundleError
        If one of them is too long, or cannot be written as UTF-8.
    """

    submitter: str = ""
    licence: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name, text in vars(self).items():
            if len(text) > _LONGEST_TEXT:
                raise BundleError(
                    f"The {name} is too long: it has {len(text):,} characters, and {_LONGEST_TEXT:,} "
                    "are the most. Shorten it."
                )
            try:
                check_text(name, text)
            except ValueError as error:
                raise BundleError(
                    f"A text of a submission cannot be written: {error}. Write it in UTF-8."
                ) from error


@dataclass(frozen=True)
class TableDigest:
    """What a table contains, independent of the file that holds it.

    Attributes
    ----------
    rows : int
    columns : mapping of str to str
        For each column a digest of its type and its values: 32 hexadecimal digits.
    """

    rows: int
    columns: Mapping[str, str]


@dataclass(frozen=True)
class BundledFile:
    """A file of a bundle, or one that the bundle leaves out.

    Attributes
    ----------
    size : int
        Bytes.
    sha256 : str
        64 hexadecimal digits.
    table : TableDigest or None
        The content of a Parquet file; None for another file.
    """

    size: int
    sha256: str
    table: TableDigest | None = None


@dataclass(frozen=True)
class Submission:
    """What a bundle says of itself: the content of submission.json.

    Attributes
    ----------
    submission_id : str
        The first 12 hexadecimal digits of the SHA-256 of the bytes of submission.json.
    submitter, licence, note : str
        See :class:`About`.
    texts : bool
        Whether the bundle has the texts of questions and trajectories, and the reference answers.
    models : bool
        Whether it has the fits that change the PRM.
    prmcal_version : str
        The version of prmcal that wrote the bundle.
    files : mapping of str to BundledFile
        All files of the bundle except submission.json and its signature, by their names.
    left_out : mapping of str to BundledFile
        The original files of the run that the bundle lacks, or has without some columns. The digest of a table has the
        columns that were left out, so that a column that is supplied later can be compared.
    signed_by : str or None
        The fingerprint of the key of its valid signature, such as ``SHA256:...``; None if it is not signed.
    signer : str or None
        The name of this key in the file of allowed signers; None if no such file was given.
    """

    submission_id: str
    submitter: str
    licence: str
    note: str
    texts: bool
    models: bool
    prmcal_version: str
    files: Mapping[str, BundledFile]
    left_out: Mapping[str, BundledFile] = field(default_factory=dict)
    signed_by: str | None = None
    signer: str | None = None

    @classmethod
    def of(
        cls,
        about: About,
        files: Mapping[str, BundledFile],
        left_out: Mapping[str, BundledFile],
        texts: bool,
        models: bool,
        prmcal_version: str,
    ) -> Submission:
        """Return a submission that is not signed, with the id that follows from its content."""
        unnamed = cls(
            "", **asdict(about), texts=texts, models=models, prmcal_version=prmcal_version, files=files
        )
        content = {**vars(unnamed), "left_out": left_out}
        return cls(**{**content, "submission_id": _id(cls(**content).to_bytes())})

    def to_bytes(self) -> bytes:
        """Return the bytes of submission.json. Equal submissions have equal bytes."""
        content = {name: value for name, value in vars(self).items() if name not in _ADDED}
        text = json.dumps({"format": FORMAT, **content}, default=vars, sort_keys=True, separators=(",", ":"))
        return text.encode() + b"\n"


def read_submission(content: bytes, where: str) -> Submission:
    """Read submission.json.

    Parameters
    ----------
    content : bytes
    where : str
        What it is part of, for the messages.

    Raises
    ------
    BundleError
        If it is damaged, or of a later format.
    """
    from pydantic import TypeAdapter

    with reading(f"{SUBMISSION_FILE} of {where} cannot be read", kind=BundleError):
        data = json.loads(content)
        for name, value in data.items() if isinstance(data, dict) else ():
            check_text(name, value)
        _check_format(data, where)
        fields = {name: value for name, value in data.items() if name != "format"}
        found: Submission = TypeAdapter(Submission).validate_python({**fields, "submission_id": _id(content)})
    # Then no two programs can read different things from the same bytes, for example from a name that is there twice.
    if found.to_bytes() != content:
        raise BundleError(f"{SUBMISSION_FILE} of {where} is not written as prmcal writes it.")
    try:
        About(found.submitter, found.licence, found.note)
    except BundleError as error:
        raise BundleError(f"{SUBMISSION_FILE} of {where} cannot be read. {error}") from error
    return found


def _check_format(data: Any, where: str) -> None:
    found = data.get("format") if isinstance(data, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise BundleError(f"{SUBMISSION_FILE} of {where} says no format. Got {shown(found)}.")
    if found > FORMAT:
        raise BundleError(
            f"{where} has format {found}, and this version of prmcal reads format {FORMAT}. "
            "Update it: pip install --upgrade prmcal"
        )


def _id(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
