"""The readable identifiers of cells."""

from __future__ import annotations

from prmcal.db.metrics import Leaderboard

__all__ = ["cell_id"]


def cell_id(
    leaderboard: Leaderboard,
    llm: str,
    dataset: str,
    *,
    prm: str | None = None,
    calibrator: str | None = None,
    strategy: str | None = None,
    target: float | None = None,
    level: float | None = None,
) -> str:
    """Return the identifier of the cell with these coordinates. It is the same in every run.

    Returns
    -------
    str
        For example ``calibration/weak/qwen/isotonic/nano-math`` or
        ``scaling/weak/qwen/isotonic/nano-math/best-of-n+ias/C=0.99/beta=0.1``.
        Coordinates that are None are left out.
    """
    parts = [leaderboard, llm, prm, calibrator, dataset]
    if strategy is not None:
        parts.append(strategy.replace(" + ", "+").replace(" ", "-").lower())
    if target is not None:
        parts.append(f"C={target:g}")
    if level is not None:
        parts.append(f"beta={level:g}")
    return "/".join(part for part in parts if part is not None)
