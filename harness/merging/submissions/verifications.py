"""The tier of each cell, from the records of verifications."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prmcal.db.metrics import TIERS
from prmcal.db.tables import Verification as VerificationRow
from prmcal.harness.verifying.record import Verification, read_verification

__all__ = ["Recorded", "TierReached", "read_recorded", "tier_of", "verification_row"]


@dataclass(frozen=True)
class Recorded:
    """The record of a verification.

    Attributes
    ----------
    verification_id : str
        The first 12 hexadecimal digits of the SHA-256 of its file.
    verification : Verification
    content : bytes
        Its file.
    """

    verification_id: str
    verification: Verification
    content: bytes


@dataclass(frozen=True)
class TierReached:
    """The highest tier of a cell, and who verified it."""

    tier: str
    verified_by: str
    verified_at: datetime


def read_recorded(path: Path) -> Recorded:
    """Read the record of a verification.

    Raises
    ------
    DataError
        If it is not the record of a verification.
    """
    verification = read_verification(path)
    content = path.read_bytes()
    return Recorded(hashlib.sha256(content).hexdigest()[:12], verification, content)


def tier_of(cells: Mapping[str, str], recorded: Sequence[Recorded]) -> TierReached | None:
    """Return the highest tier that a cell passed.

    Parameters
    ----------
    cells : mapping of str to str
        The ids of the cell in its submissions, by the ids of the submissions.
    recorded : sequence of Recorded
        Records of any submissions. A check that fails without naming cells fails for all of them.

    Returns
    -------
    TierReached or None
        None if it passed none. Of several equal tiers, the earliest verification counts.
    """
    found = []
    for each in recorded:
        verification = each.verification
        if verification.submission in cells:
            passed = _passed(verification, cells[verification.submission])
            if passed:
                place = (-passed, verification.verified_at, each.verification_id)
                found.append(
                    (place, TierReached(TIERS[passed - 1], verification.verified_by, _time(verification)))
                )
    return min(found, key=lambda each: each[0])[1] if found else None


def verification_row(recorded: Recorded) -> VerificationRow:
    """Return the row of a verification."""
    verification = recorded.verification
    checks: dict[str, Any] = {
        "seed": verification.seed,
        "checks": [{**asdict(each), "cells": list(each.cells)} for each in verification.checks],
    }
    return VerificationRow(
        verification_id=recorded.verification_id,
        submission_id=verification.submission,
        tier=verification.tier,
        passed=verification.passed,
        verified_by=verification.verified_by,
        verified_at=_time(verification),
        prmcal_version=verification.prmcal_version,
        checks=checks,
    )


def _passed(verification: Verification, cell: str) -> int:
    """Return how many tiers a cell passed without a failure before."""
    tried = TIERS[: TIERS.index(verification.tier) + 1]
    for number, tier in enumerate(tried):
        failed = [each for each in verification.checks if each.tier == tier and not each.passed]
        if any(not each.cells or cell in each.cells for each in failed):
            return number
    return len(tried)


def _time(verification: Verification) -> datetime:
    found = datetime.fromisoformat(verification.verified_at)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
