"""Files from elsewhere: whatever goes wrong while one is read becomes one error, which names the file.

The libraries that read files raise errors without a common base class. The header of a .npy file alone can raise
ValueError, MemoryError and tokenize.TokenError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prmcal.errors import DataError, PrmcalError
from prmcal.registry.excerpts import excerpt

__all__ = ["file_hash", "is_file", "reading"]


@contextmanager
def reading(what: str, advice: str = "", kind: type[PrmcalError] = DataError) -> Iterator[None]:
    """Turn any error of the block into an error that says what cannot be read, why, and what to do.

    Parameters
    ----------
    what : str
        The beginning of the message, such as "The rewards r.npy cannot be read" or "own.jsonl, line 3".
    advice : str
        What to do, in a sentence.
    kind : type
        The class of the error.

    Raises
    ------
    PrmcalError
        An error of the class `kind`. Errors of prmcal itself are raised as they are.
    """
    try:
        yield
    except PrmcalError:
        raise
    except Exception as error:
        raise kind(f"{what}: {_problem(error)}. {advice}".rstrip()) from error


def is_file(path: str) -> bool:
    """Return whether there is such a file. There is none under a path that no file can have."""
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def file_hash(path: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a file.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    with reading(f"The file {path} cannot be read"), Path(path).expanduser().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _problem(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return f"it is not UTF-8 text ({error.reason} at byte {error.start})"
        case UnicodeEncodeError():
            return "it has half of a surrogate pair, which is no character"
        case json.JSONDecodeError():
            return f"it is not JSON ({error.msg} at character {error.pos + 1})"
        case RecursionError():
            return "its lists and objects are nested too deeply"
        case MemoryError():
            return "it asks for more memory than there is"
        case KeyError():
            return f"it lacks {error}"
        case OSError(strerror=str(reason)):
            return reason
        case ValueError() if "integer string conversion" in str(error):
            return "it has a number of thousands of digits"
    return excerpt(str(error)).rstrip(".") or type(error).__name__
