"""From what is wrong with artifacts to a check, whose message has the first findings and their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prmcal.db.metrics import Tier
from prmcal.db.text.formats import counted
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.messages import excerpt

__all__ = ["Flaw", "concluded", "not_made", "place_of"]

_TOLD = 3


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that is wrong.

    Attributes
    ----------
    message : str
        A sentence without a full stop.
    refs : tuple of ArtifactRef
        The artifacts that it concerns, and with them the cells that they decide.
    cells : tuple of str
        The ids of further cells that it concerns.
    """

    message: str
    refs: tuple[ArtifactRef, ...] = ()
    cells: tuple[str, ...] = ()


def concluded(subject: Subject, tier: Tier, name: str, n: int, flaws: Iterable[Flaw], passed: str) -> Check:
    """Return a check: failed with its first flaws, or passed with the message `passed`.

    Parameters
    ----------
    subject : Subject
    tier, name, n
        As in :class:`prmcal.harness.share.verify_record.Check`.
    flaws : iterable of Flaw
    passed : str
        What was found if there are no flaws, in sentences.
    """
    found = list(flaws)
    if not found:
        return Check(tier, name, True, n, passed)
    cells = {cell for each in found for cell in each.cells}
    cells |= set(subject.cells_behind({ref for each in found for ref in each.refs}))
    return Check(tier, name, False, n, _told(found), subject.named(cells))


def not_made(tier: Tier, name: str, why: str, passed: bool = True, cells: Sequence[str] = ()) -> Check:
    """Return a check that could not be made. It counts as passed unless the tier needs it."""
    return Check(tier, name, passed, 0, f"Not checked: {why}", tuple(cells))


def place_of(subject: Subject, ref: ArtifactRef) -> str:
    """Return how messages name an artifact, by its job."""
    return str(subject.plan.job_of(ref))


def _told(flaws: Sequence[Flaw]) -> str:
    lines = list(dict.fromkeys(excerpt(each.message) for each in flaws))
    shown = [f"{line}." for line in lines[:_TOLD]]
    more = len(lines) - len(shown)
    return " ".join([*shown, *([f"There are {counted(more, 'other finding')}."] if more else [])])
