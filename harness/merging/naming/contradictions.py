"""Which results of a submission contradict those of an earlier one, and what their names tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.storage.store import ArtifactRef, content_key

__all__ = ["Contradictions"]


class Contradictions:
    """The jobs whose results contradict those of an earlier submission.

    Of several contents of an artifact, that of the first submission keeps the plain names. A job contradicts it if its
    own artifacts or those behind it have another content, even if its own result is the same. Submissions with the same
    contents behind a job have the same words, those of the first of them.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    first : mapping of ArtifactRef to str
        The artifacts of which submissions have different contents, with the content of the first submission.
    """

    def __init__(self, submissions: Sequence[Submitted], first: Mapping[ArtifactRef, str]) -> None:
        self._words: dict[str, dict[int, str]] = {}
        named: dict[tuple[str, str], str] = {}
        for each in submissions if first else ():
            own = self._words.setdefault(each.submission_id, {})
            for job, contents in _other_contents(each, first):
                name = named.setdefault((job.key, contents), each.submission_id)
                own[id(job)] = f"conflict {name[:8]}"

    def words(self, submission: Submitted, job: Job[Parameters]) -> str:
        """Return ``conflict`` with the first digits of a submission; empty if a job contradicts nothing."""
        return self._words.get(submission.submission_id, {}).get(id(job), "")

    def all_words(self, submission: Submitted) -> Iterable[str]:
        """Return what the names of jobs of a submission can tell."""
        return sorted({"", *self._words.get(submission.submission_id, {}).values()})


def _other_contents(
    submission: Submitted, first: Mapping[ArtifactRef, str]
) -> Iterable[tuple[Job[Parameters], str]]:
    """Yield the jobs with other contents, each with a hash of the other contents that it has or was computed from.

    The same artifacts are behind all jobs of one key, so their hashes are equal if these contents are.
    """
    behind: dict[ArtifactRef, str] = {}
    for job in submission.plan.jobs:
        for shard in job.shards:
            content = submission.contents.get(shard.ref)
            own = content if content is not None and first.get(shard.ref, content) != content else ""
            read = [
                behind[ref] for role in sorted(shard.inputs) for ref in shard.inputs[role] if ref in behind
            ]
            if own or read:
                behind[shard.ref] = content_key([own, *read])
        found = [behind[ref] for ref in job.refs if ref in behind]
        if found:
            yield job, content_key(found)
