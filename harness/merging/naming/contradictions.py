"""Which jobs of a submission contradict an earlier submission, and what their names tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.merging.submissions.conditions import compatible
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["Contradictions"]

_Contents = Mapping[ArtifactRef, str]


class Contradictions:
    """The jobs whose results contradict those of an earlier submission.

    Of several contents of an artifact, that of the first submission keeps the plain names. A job contradicts it if its
    own artifacts or those behind it have another content, even if its own result is the same.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    conflicts : set of ArtifactRef
        The artifacts of which submissions have different contents.
    """

    def __init__(self, submissions: Sequence[Submitted], conflicts: frozenset[ArtifactRef]) -> None:
        self._words: dict[str, str] = {}
        self._jobs: dict[str, set[int]] = {}
        if not conflicts:
            return
        disputed = {each.submission_id: _only(each.contents, conflicts) for each in submissions}
        first: dict[ArtifactRef, str] = {}
        for contents in disputed.values():
            first = {**contents, **first}
        for each in submissions:
            others = {ref for ref, content in first.items() if each.contents.get(ref, content) != content}
            self._jobs[each.submission_id] = _behind(each, others)
        groups = _groups(disputed)
        named: dict[int, str] = {}
        for each in submissions:
            if self._jobs[each.submission_id]:
                first_one = named.setdefault(groups[each.submission_id], each.submission_id)
                self._words[each.submission_id] = f"conflict {first_one[:8]}"

    def words(self, submission: Submitted, job: Job[Parameters]) -> str:
        """Return ``conflict`` with the first digits of a submission; empty if a job contradicts nothing.

        Of submissions that do not contradict each other, it is the first one with such a job.
        """
        jobs = self._jobs.get(submission.submission_id, ())
        return self._words[submission.submission_id] if id(job) in jobs else ""

    def all_words(self, submission: Submitted) -> Iterable[str]:
        """Return what the names of jobs of a submission can tell."""
        return dict.fromkeys(("", self._words.get(submission.submission_id, "")))


def _only(contents: _Contents, refs: frozenset[ArtifactRef]) -> dict[ArtifactRef, str]:
    return {ref: contents[ref] for ref in refs if ref in contents}


def _behind(submission: Submitted, others: set[ArtifactRef]) -> set[int]:
    """Return the ids of the jobs with one of these artifacts, and of those that were computed from one."""
    found: set[int] = set()
    for job in submission.plan.jobs if others else ():
        if not others.isdisjoint(job.refs) or any(id(source) in found for source in job.inputs):
            found.add(id(job))
    return found


def _groups(disputed: Mapping[str, _Contents]) -> dict[str, int]:
    """Return the number of the group of each submission. Those of a group do not contradict each other."""
    groups: list[dict[ArtifactRef, str]] = []
    found: dict[str, int] = {}
    for submission_id, contents in disputed.items():
        number = next((each for each, known in enumerate(groups) if compatible(contents, known)), len(groups))
        if number == len(groups):
            groups.append({})
        groups[number].update(contents)
        found[submission_id] = number
    return found
