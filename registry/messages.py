"""Text and values from elsewhere as parts of a message, and errors of files that cannot be read."""

import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prmcal.errors import DataError, PrmcalError

LFS_POINTER = b"version https://git-lfs"
"""The beginning of a pointer of Git LFS."""
_LONGEST_TEXT = 300
_LONGEST_VALUE = 80


def printable(text: str) -> str:
    """Return text from a model or a data set with its control characters escaped. Line breaks stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def meant(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a question that suggests the closest known name, or another text if none is close."""
    close = difflib.get_close_matches(name, sorted(names), n=1)
    return f"Did you mean '{close[0]}'?" if close else otherwise


def one_line(text: str) -> str:
    """Return a text on one line, with its control characters escaped."""
    return printable(" ".join(text.split()))


def excerpt(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Return the start of a text on one line of at most `longest` characters. An ellipsis says that there is more."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def shown(value: object) -> str:
    """Return how Python writes a value, in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def message_of(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {error}"


def causes_of(error: BaseException, suppressed: bool = False) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of this, and so on; also those that are `suppressed` in a traceback."""
    seen_ids: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen_ids:
        seen_ids.add(id(cause))
        yield cause
        hidden = cause.__suppress_context__ and not suppressed
        cause = cause.__cause__ or (None if hidden else cause.__context__)


@contextmanager
def reading(what: str, advice: str = "", kind: type[PrmcalError] = DataError) -> Iterator[None]:
    """Turn any error of the block into a DataError with what cannot be read, the reason, and advice.

    `what` is the beginning of the message, such as "The rewards r.npy cannot be read" or "own.jsonl, line 3", and
    `advice` a sentence. The error is of the class `kind`. Errors of prmcal itself are raised as they are.
    """
    try:
        yield
    except PrmcalError:
        raise
    except Exception as error:
        raise kind(f"{what}: {_problem(error)}. {advice}".rstrip()) from error


def refuse_pointer(path: Path, content: bytes) -> None:
    """Raise a DataError if the content of a file, or its beginning, is a pointer of Git LFS."""
    if content.startswith(LFS_POINTER):
        raise DataError(f"{path} is a pointer of Git LFS and not the file itself. Fetch it with: git lfs pull")


def is_file(path: str) -> bool:
    """Return whether there is such a file. There is none under a path that no file can have."""
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def file_hash(path: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a file. Raises a DataError if it cannot be read."""
    with reading(f"The file {path} cannot be read"):
        return file_sha256(Path(path).expanduser())[:16]


def user_cache() -> Path:
    """Return the folder for files of this user that prmcal can make or ask for again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prmcal"


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _problem(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return f"it is not UTF-8 text ({error.reason} at byte {error.start})"
        case json.JSONDecodeError():
            return f"it is not JSON ({error.msg} at character {error.pos + 1})"
        case RecursionError():
            return "its lists and objects are nested too deeply"
        case KeyError():
            return f"it lacks {error}"
        case OSError(strerror=str(reason)):
            return reason
    return excerpt(str(error)).rstrip(".") or type(error).__name__
