"""How the provenance of cells is told: who verified them, what of them is no longer current, and how to renew them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from prmcal.db.text.formats import counted, missing

VERIFIED = "Verified"
"""The title of the column with the tier of verification."""

TIER_MEANINGS = {
    "consistent": "keys, artifacts and all numbers fit together: they were computed again from counts and rewards",
    "graded again": "answers were extracted and graded again from the texts",
    "scored again": "a random share of the prefixes was scored again by the PRM, and calibrators were fitted again",
    "reproduced": "rollouts of the verifier's own agree",
}
"""What each tier of a verification says. Each tier includes those before it."""

_KINDS = ("llm", "prm", "calibrator", "dataset", "strategy")


def verified_text(tier: Any, verified_by: Any = None, verified_at: Any = None, failed: int = 0) -> str:
    """Return who verified something at which tier, and when, such as ``scored again by Ada, 2026-03-04``.

    Verifications that failed are told too, such as ``not verified; 1 verification failed``.

    Parameters
    ----------
    tier, verified_by : str or missing
    verified_at : str, datetime or missing
        A UTC time. Only its day is shown.
    failed : int
        The number of verifications that failed.
    """
    failures = f"; {counted(failed, 'verification')} failed" if failed else ""
    if missing(tier):
        return f"not verified{failures}"
    parts = [str(tier) if missing(verified_by) or not verified_by else f"{tier} by {verified_by}"]
    if not missing(verified_at):
        parts.append(str(verified_at)[:10])
    return ", ".join(parts) + failures


def tier_choice(tier: str | None) -> str:
    """Return the text of an option that keeps the cells of a tier and of those above it; None keeps all cells."""
    return "all rows" if tier is None else f"at least {tier}"


def signature_text(signed_by: Any) -> str:
    """Return by which key a submission is signed."""
    return "not signed" if missing(signed_by) or not signed_by else f"signed by {signed_by}"


def renewal(cell: Mapping[str, Any]) -> str:
    """Return the command that measures a cell again with the versions that are current.

    Parameters
    ----------
    cell : mapping
        The coordinates of the cell. ``GRID.yaml`` in the command stands for the grid of the run that measured it.
    """
    names = {kind: cell.get(kind) for kind in _KINDS}
    named = [f"{kind}={name}" for kind, name in names.items() if isinstance(name, str)]
    only = [f"--only {shlex.quote(each)}" for each in named]
    return " ".join(["prmcal run GRID.yaml --out DIR", *only])
