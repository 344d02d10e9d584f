"""Where a merged leaderboard has the artifacts of its submissions.

An artifact has the address of its key, unless submissions have different contents of one key. Then each content has an
address of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.storage.store import ArtifactRef

__all__ = ["conflicts_of", "stored", "suffixed"]

_DIGITS = 8


def stored(submission: Submitted, ref: ArtifactRef, conflicts: Mapping[ArtifactRef, str]) -> ArtifactRef:
    """Return the address of an artifact of a submission where some artifacts are in conflict.

    What the submission does not have, because a job failed, has the content of the first submission with it.
    """
    return suffixed(ref, submission.contents.get(ref, conflicts[ref])) if ref in conflicts else ref


def conflicts_of(submissions: Iterable[Submitted]) -> dict[ArtifactRef, str]:
    """Return the artifacts of which submissions have different contents, each with that of the first submission."""
    first: dict[ArtifactRef, str] = {}
    found: dict[ArtifactRef, str] = {}
    for each in submissions:
        for ref, content in each.contents.items():
            if first.setdefault(ref, content) != content:
                found[ref] = first[ref]
    return found


def suffixed(ref: ArtifactRef, content: str) -> ArtifactRef:
    """Return the address of one of several contents of a key that contradict each other."""
    return ArtifactRef(ref.kind, f"{ref.key}-{content[:_DIGITS]}")
