"""Where a merged leaderboard has the artifacts of its submissions.

An artifact has the address of its key, unless submissions have different contents of one key. Then each content has an
address of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["conflicts_of", "stored", "suffixed"]

_DIGITS = 8


def stored(submission: Submitted, ref: ArtifactRef, conflicts: frozenset[ArtifactRef]) -> ArtifactRef:
    """Return the address of an artifact of a submission where some artifacts are in conflict."""
    content = submission.contents.get(ref)
    return suffixed(ref, content) if ref in conflicts and content is not None else ref


def conflicts_of(submissions: Iterable[Submitted]) -> frozenset[ArtifactRef]:
    """Return the artifacts of which submissions have different contents."""
    first: dict[ArtifactRef, str] = {}
    return frozenset(
        ref
        for each in submissions
        for ref, content in each.contents.items()
        if first.setdefault(ref, content) != content
    )


def suffixed(ref: ArtifactRef, content: str) -> ArtifactRef:
    """Return the address of one of several contents of a key that contradict each other."""
    return ArtifactRef(ref.kind, f"{ref.key}-{content[:_DIGITS]}")
