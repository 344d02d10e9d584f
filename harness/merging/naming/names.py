"""The names of a merged leaderboard: those of the grids, with what tells variants apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prmcal.db.metrics import Leaderboard
from prmcal.harness.jobs.job import Job, Labels
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.merging.naming.contradictions import Contradictions
from prmcal.harness.merging.naming.namespaces import Namespace, llm_words, namespaces_of
from prmcal.harness.merging.naming.words import named, words_of_variants
from prmcal.harness.merging.submissions.conditions import EVERY_LEADERBOARD
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.store import ArtifactRef

__all__ = ["Names"]


class Names:
    """The names of a merged leaderboard.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    conflicts : mapping of ArtifactRef to str
        The artifacts of which submissions have different contents, with the content of the first submission.

    Attributes
    ----------
    namespaces : mapping of str to sequence of Namespace
        Those of each leaderboard.
    """

    def __init__(self, submissions: Sequence[Submitted], conflicts: Mapping[ArtifactRef, str]) -> None:
        self._words = words_of_variants(submissions)
        self._contradictions = Contradictions(submissions, conflicts)
        self.namespaces: Mapping[Leaderboard, Sequence[Namespace]] = {
            each: namespaces_of(submissions, self._words, each) for each in EVERY_LEADERBOARD
        }
        self._numbers = {
            (leaderboard, each.submission_id): number
            for leaderboard, namespaces in self.namespaces.items()
            for number, space in enumerate(namespaces)
            for each in space.submissions
        }
        self._apart = {each: llm_words(self.namespaces[each], self._words) for each in EVERY_LEADERBOARD}

    def namespace(self, submission: Submitted, leaderboard: Leaderboard) -> Namespace:
        """Return the namespace of a submission on a leaderboard."""
        return self.namespaces[leaderboard][self._numbers[leaderboard, submission.submission_id]]

    def place(self, submission: Submitted) -> tuple[int, ...]:
        """Return the places of the namespaces of a submission, by which its names are sorted."""
        return tuple(self._numbers[each, submission.submission_id] for each in EVERY_LEADERBOARD)

    def conflict(self, submission: Submitted, job: Job[Parameters]) -> str:
        """Return what the name of a job tells of a conflict; empty if it contradicts no other submission."""
        return self._contradictions.words(submission, job)

    def labels(
        self, submission: Submitted, labels: Labels, leaderboard: Leaderboard, conflict: str = ""
    ) -> Labels:
        """Return the labels of a job of a submission with the names of a leaderboard, and the words of a conflict."""
        told = self._told(submission, leaderboard, labels.llm), conflict
        return self._words[submission.submission_id].labels(labels, *told)

    def cell(self, submission: Submitted, cell: Cell) -> Cell:
        """Return a cell of a submission with the names of its leaderboard."""
        told = self._told(submission, cell.leaderboard, cell.labels.llm), self.conflict(submission, cell.job)
        return self._words[submission.submission_id].cell(cell, *told)

    def cell_without_namespace(self, submission: Submitted, cell: Cell) -> Cell:
        """Return a cell of a submission with the names that it would have in any namespace."""
        return self._words[submission.submission_id].cell(cell)

    def variant(self, submission: Submitted, cell: Cell) -> str:
        """Return what tells a cell of a submission apart from others of its name; empty if nothing does."""
        told = (
            *self._words[submission.submission_id].of_cell(cell),
            self._told(submission, cell.leaderboard, cell.labels.llm),
            self.conflict(submission, cell.job),
        )
        return ", ".join(filter(None, told))

    def plugins(self, submission: Submitted, kind: str, name: str) -> Iterable[str]:
        """Return the names that a plugin of a submission, which is no data set, can have. Only an LLM has several."""
        words = self._words[submission.submission_id].plugins.get((kind, name), "")
        if kind != "llm":
            return [named(name, words)]
        return dict.fromkeys(
            named(name, words, self._told(submission, leaderboard, name), conflict)
            for conflict in self._contradictions.all_words(submission)
            for leaderboard in EVERY_LEADERBOARD
        )

    def dataset(self, submission: Submitted, name: str, split: str) -> str:
        """Return the name of a data set of a submission."""
        return self._words[submission.submission_id].dataset(name, split)

    def _told(self, submission: Submitted, leaderboard: Leaderboard, llm: str) -> str:
        name = self._words[submission.submission_id].plugin("llm", llm)
        number = self._numbers[leaderboard, submission.submission_id]
        return self._apart[leaderboard][number].get(name, "")
