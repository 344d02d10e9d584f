"""The record of a verification: a small JSON file with all checks, which a merged leaderboard reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from prmcal.db.metrics import Tier
from prmcal.errors import DataError
from prmcal.harness.storage.folder import check_text, check_time, one_problem
from prmcal.harness.storage.store import file_sha256, write_atomically
from prmcal.registry.messages import reading

FORMAT = 1
"""The version of the file. A later version of prmcal raises it when it writes what this one cannot read."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found."""

    tier: Tier
    check: str
    """Its name, such as "results computed again"."""
    passed: bool
    """False if it found something wrong, and if it could not be made although the tier needs it."""
    n: int
    """What was checked: artifacts, rows, questions or prefixes, as the message says. 0 if it could not be made."""
    message: str
    """What was found, in sentences."""
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
    """Whether every check of this tier and of those before it passed."""
    verified_by: str
    """The name that the verifier gave."""
    verified_at: str
    """The time in UTC, in ISO format."""
    prmcal_version: str
    """The version of prmcal that verified it."""
    seed: int
    """What random choices were made with. The verifier draws it, so a submitter cannot know what is checked."""
    checks: tuple[Check, ...]

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def text(self) -> str:
        """Return the JSON text of the record. Equal verifications have equal texts."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def write_verification(path: Path, verification: Verification) -> None:
    """Write the record to a file, whose texts are UTF-8.

    Raises a DataError if the name of the verifier cannot be written, and a StorageError if the file cannot.
    """
    with reading(f"The record {path} cannot be written", "Write the name in UTF-8."):
        check_text("verified_by", verification.verified_by)
    write_atomically(path, verification.text())


def read_verification(path: Path) -> Verification:
    """Read the record of a verification.

    Raises a DataError if the file cannot be read, is of a newer format, or is no record of a verification.
    """
    from pydantic import TypeAdapter

    with reading(f"{path} is no verification", "Write it again with prmcal verify --out."), one_problem():
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or type(content.get("format")) is not int:
            raise ValueError("it must be an object with a 'format'")
        if content.pop("format") > FORMAT:
            raise DataError(
                f"The verification {path} has a newer format than {FORMAT}, up to which this version of prmcal reads. "
                "Install a newer version."
            )
        found: Verification = TypeAdapter(Verification).validate_json(json.dumps(content), strict=True)
        check_time("verified_at", found.verified_at)
        if found.passed and not all(each.passed for each in found.checks):
            raise ValueError("it says that it passed, but one of its checks did not")
    return found


def read_verifications(paths: Iterable[Path]) -> dict[str, tuple[Path, Verification]]:
    """Read records by their ids: the first 12 hexadecimal digits of the SHA-256 of their files, in their order."""
    found = [(path, read_verification(path)) for path in paths]
    by_id = {file_sha256(path)[:12]: (path, each) for path, each in found}
    return {name: by_id[name] for name in sorted(by_id)}
