"""Namespaces: groups of submissions whose rows may be compared with each other.

The submissions of a namespace have equal conditions, and do not contradict each other. If an LLM is in several
namespaces, its name has in each what differs, such as ``nano-weak (seed 2)``. Then whatever groups rows by their names
keeps them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prmcal.harness.jobs.job import Labels
from prmcal.harness.merging.naming.differences import words_apart
from prmcal.harness.merging.naming.names import Words, named, words_of_variants
from prmcal.harness.merging.submissions.conditions import OF_METRICS, compatible
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["Names", "Namespace", "namespaces_of"]


@dataclass
class Namespace:
    """A group of submissions.

    Attributes
    ----------
    submissions : list of Submitted
        In their order.
    conditions, further : dict
        The conditions of all of them together.
    contents : dict of ArtifactRef to str
        The contents of their artifacts.
    jobs : dict of str to str
        The keys of the jobs that measured their cells, by the ids of cells.
    conflict : str
        The submission with which it began, if that contradicts an earlier namespace of the same conditions; else empty.
    """

    submissions: list[Submitted] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    further: dict[str, Any] = field(default_factory=dict)
    contents: dict[ArtifactRef, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    conflict: str = ""

    def add(self, submission: Submitted, jobs: Mapping[str, str]) -> None:
        """Add a submission."""
        self.submissions.append(submission)
        self.conditions.update(submission.conditions)
        self.further.update(submission.further)
        self.contents.update(submission.contents)
        self.jobs.update(jobs)


def namespaces_of(submissions: Sequence[Submitted], words: Mapping[str, Words]) -> list[Namespace]:
    """Return the namespaces of submissions. Each submission is in the first one that it fits.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order. So the result is a function of their set.
    words : mapping of str to Words
        See :func:`prmcal.harness.merging.naming.names.words_of_variants`.
    """
    found: list[Namespace] = []
    for each in submissions:
        own = words[each.submission_id]
        jobs = {own.cell(cell).cell_id: cell.job.key for cell in each.plan.cells}
        alike = [space for space in found if compatible(each.conditions, space.conditions)]
        agreeing = [space for space in alike if compatible(each.contents, space.contents)]
        fitting = next((space for space in agreeing if compatible(jobs, space.jobs)), None)
        if fitting is None:
            fitting = Namespace(conflict=each.submission_id if alike and not agreeing else "")
            found.append(fitting)
        fitting.add(each, jobs)
    return found


class Names:
    """The names of a merged leaderboard.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.

    Attributes
    ----------
    namespaces : list of Namespace
    """

    def __init__(self, submissions: Sequence[Submitted]) -> None:
        self._words = words_of_variants(submissions)
        self.namespaces = namespaces_of(submissions, self._words)
        self._numbers = {
            each.submission_id: number
            for number, space in enumerate(self.namespaces)
            for each in space.submissions
        }
        self._apart = _llm_words(self.namespaces, self._words)

    def number(self, submission: Submitted) -> int:
        """Return the place of the namespace of a submission."""
        return self._numbers[submission.submission_id]

    def labels(self, submission: Submitted, labels: Labels) -> Labels:
        """Return the labels of a job of a submission with the names of the merged leaderboard."""
        return self._words[submission.submission_id].labels(labels, self._told(submission, labels.llm))

    def cell(self, submission: Submitted, cell: Cell) -> Cell:
        """Return a cell of a submission with the names of the merged leaderboard."""
        return self._words[submission.submission_id].cell(cell, self._told(submission, cell.labels.llm))

    def cell_without_namespace(self, submission: Submitted, cell: Cell) -> Cell:
        """Return a cell of a submission with the names that it would have in any namespace."""
        return self._words[submission.submission_id].cell(cell)

    def variant(self, submission: Submitted, cell: Cell) -> str:
        """Return what tells a cell of a submission apart from others of its name; empty if nothing does."""
        told = self._told(submission, cell.labels.llm)
        return ", ".join([*self._words[submission.submission_id].of_cell(cell), *([told] if told else [])])

    def plugin(self, submission: Submitted, kind: str, name: str) -> str:
        """Return the name of a plugin of a submission, which is no data set."""
        words = self._words[submission.submission_id]
        told = self._told(submission, name) if kind == "llm" else ""
        return named(name, words.plugins.get((kind, name), ""), told)

    def dataset(self, submission: Submitted, name: str, split: str) -> str:
        """Return the name of a data set of a submission."""
        return self._words[submission.submission_id].dataset(name, split)

    def _told(self, submission: Submitted, llm: str) -> str:
        name = self._words[submission.submission_id].plugin("llm", llm)
        return self._apart[self.number(submission)].get(name, "")


def _llm_words(namespaces: Sequence[Namespace], words: Mapping[str, Words]) -> list[dict[str, str]]:
    """Return what tells LLMs apart in each namespace, by their names with the words of their own variants.

    Only LLMs that are in several namespaces are in it.
    """
    having: dict[str, list[int]] = {}
    for number, space in enumerate(namespaces):
        for each in space.submissions:
            for plugin in each.plan.plugins.get("llm", ()):
                places = having.setdefault(words[each.submission_id].plugin("llm", plugin.name), [])
                if number not in places:
                    places.append(number)
    found: list[dict[str, str]] = [{} for _ in namespaces]
    for name, places in having.items():
        if len(places) > 1:
            for number, text in zip(places, _apart([namespaces[place] for place in places]), strict=True):
                found[number][name] = text
    return found


def _apart(namespaces: Sequence[Namespace]) -> list[str]:
    """Return what differs between namespaces: conditions in words, and the submission of a conflict."""
    agreeing = [space for space in namespaces if not space.conflict]
    told = _conditions_apart(agreeing)
    found = []
    for space in namespaces:
        # A conflict has the conditions of one of the others, unless the others have no such LLM.
        words = next((words for each, words in zip(agreeing, told, strict=True) if _alike(space, each)), "")
        found.append(", ".join(filter(None, (words, space.conflict and f"conflict {space.conflict[:8]}"))))
    return found


def _alike(some: Namespace, other: Namespace) -> bool:
    return some is other or (bool(some.conflict) and compatible(some.conditions, other.conditions))


def _conditions_apart(namespaces: Sequence[Namespace]) -> list[str]:
    """Return the differences of the conditions that are known of all; of metrics only if there are no others."""
    every = [{**space.conditions, **space.further} for space in namespaces]
    known = {name for each in every for name in each if all(name in other for other in every)}
    of_rows = {name for name in known if not name.startswith(OF_METRICS)}
    for names in (of_rows, known):
        described = [{name: value for name, value in each.items() if name in names} for each in every]
        found = words_apart(described)
        if len(set(found)) == len(found):
            return found
    return [f"submission {space.submissions[0].submission_id[:8]}" for space in namespaces]
