"""The bytes of a bundle: a zip file that follows from the names and the bytes of its entries.

Entries are stored without compression, so a bundle is as large as what it holds, and it cannot hold a bomb. They are
in the order of their names, and have one date and one mode. An archive with other bytes is refused, even where a zip
program would read the same entries. So no byte of a bundle can be altered unnoticed.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from prmcal.errors import BundleError
from prmcal.harness.bundles.format import BundledFile
from prmcal.registry.messages import reading, shown

__all__ = ["extract", "write_archive"]

_DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*", re.ASCII)
_LONGEST_NAME = 200
_CHUNK = 2**20
_AGAIN = "It was cut off or altered, or prmcal did not write it. Ask the submitter for it again."


def write_archive(entries: Mapping[str, Path | bytes], file: BinaryIO) -> None:
    """Write a bundle to an open file.

    Parameters
    ----------
    entries : mapping of str to Path or bytes
        The files in the bundle by their names. A path is read when it is written.
    file : binary file
    """
    names = sorted(entries)
    with reading("The bundle cannot be written", kind=BundleError):
        _check_names(names)
    with zipfile.ZipFile(_stream(file.write), "w") as archive:
        for name in names:
            content = entries[name]
            size = content.stat().st_size if isinstance(content, Path) else len(content)
            with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as source:
                for _ in _copy(source, archive, name, size):
                    pass


def extract(bundle: Path, folder: Path) -> dict[str, BundledFile]:
    """Write the entries of a bundle into a folder, which is empty.

    Returns
    -------
    dict of str to BundledFile
        The size and the hash of each file by its name.

    Raises
    ------
    BundleError
        If the file is not exactly what :func:`write_archive` writes. Files may be in the folder then.
    """
    found: dict[str, BundledFile] = {}
    if bundle.is_dir():
        raise BundleError(f"{bundle} is a folder, not a bundle.")
    with (
        reading(f"{bundle} is not a bundle", _AGAIN, BundleError),
        _keeping_interrupts(),
        bundle.open("rb") as original,
        zipfile.ZipFile(bundle) as archive,
    ):
        entries = archive.infolist()
        _check_names([entry.orig_filename for entry in entries])
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise BundleError(
                    f"{bundle} is not a bundle: its entry {shown(entry.filename)} is compressed."
                )

        # The bundle is written again while it is read, and compared with itself.
        with zipfile.ZipFile(_stream(_comparing(original)), "w") as again:
            for entry in entries:
                target = folder / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                digest = hashlib.sha256()
                with archive.open(entry) as source, target.open("xb") as file:
                    for chunk in _copy(source, again, entry.filename, entry.file_size):
                        digest.update(chunk)
                        file.write(chunk)
                found[entry.filename] = BundledFile(entry.file_size, digest.hexdigest())
        if original.read(1):
            raise ValueError("it goes on after its end")
    return found


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Raise the interrupt instead of the error that closing the unfinished archive gave after it."""
    try:
        yield
    except Exception as error:
        found: BaseException | None = error
        while found is not None:
            if not isinstance(found, Exception):
                raise found from None
            found = found.__context__
        raise


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise ValueError(f"it has an entry with the name {shown(name)}")
    if len({name.casefold() for name in names}) != len(names):
        raise ValueError("it has two entries with one name")
    if list(names) != sorted(names):
        raise ValueError("its entries are not in order")


def _copy(source: IO[bytes], archive: zipfile.ZipFile, name: str, size: int) -> Iterator[bytes]:
    """Write an entry, and yield its parts."""
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system = 3  # Unix, on every system
    entry.external_attr = 0o100644 << 16
    entry.file_size = size
    with archive.open(entry, "w") as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
            yield chunk


class _Stream(io.RawIOBase):
    """A file that is only written, from its beginning to its end."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write(data)
        return len(data)


def _stream(write: Callable[[Any], object]) -> BinaryIO:
    return cast(BinaryIO, _Stream(write))


def _comparing(original: BinaryIO) -> Callable[[Any], None]:
    """Return a function that compares the data that it receives with the next bytes of a file."""

    def compare(data: Any) -> None:
        if original.read(len(data)) != bytes(data):
            raise ValueError("its bytes are not those of its entries")

    return compare
