"""Namespaces: groups of submissions whose rows on a leaderboard may be compared with each other.

The submissions of a namespace have equal conditions. If an LLM is in several namespaces of a leaderboard, its name has
in each what differs, such as ``nano-weak (seed 2)``. Then whatever groups rows by their names keeps them apart.
Leaderboards have namespaces of their own: the size of the pool, for example, decides nothing on the calibration
leaderboard, where equal rows of two sizes are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prmcal.db.metrics import Leaderboard
from prmcal.harness.merging.naming.differences import words_apart
from prmcal.harness.merging.naming.words import Words
from prmcal.harness.merging.submissions.conditions import EVERY_LEADERBOARD, OF_METRICS, compatible
from prmcal.harness.merging.submissions.submitted import Submitted

__all__ = ["Namespace", "llm_words", "namespaces_of"]


@dataclass(eq=False)
class Namespace:
    """A group of submissions on one leaderboard.

    Attributes
    ----------
    submissions : list of Submitted
        In their order.
    conditions, further : dict
        The conditions of all of them together: those of all rows of this leaderboard, and those of some of its rows.
    every : dict
        These, and those of the other leaderboards, of fits and of shards.
    jobs : dict of str or (str, str) to str
        The keys of the jobs that measured their cells, by the ids of cells, and of those with the data that the
        leaderboard measures, by LLM and data set.
    """

    submissions: list[Submitted] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    further: dict[str, Any] = field(default_factory=dict)
    every: dict[str, Any] = field(default_factory=dict)
    jobs: dict[Hashable, str] = field(default_factory=dict)

    def add(self, submission: Submitted, leaderboard: Leaderboard, jobs: Mapping[Hashable, str]) -> None:
        """Add a submission."""
        self.submissions.append(submission)
        self.conditions.update(submission.conditions[leaderboard])
        self.further.update(submission.further[leaderboard])
        self.jobs.update(jobs)
        self.every |= {**submission.shard_conditions, **submission.fit_conditions}
        for each in EVERY_LEADERBOARD:
            self.every |= {**submission.conditions[each], **submission.further[each]}


def namespaces_of(
    submissions: Sequence[Submitted], words: Mapping[str, Words], leaderboard: Leaderboard
) -> list[Namespace]:
    """Return the namespaces of submissions on a leaderboard. Each submission is in the first one that it fits.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order. So the result is a function of their set.
    words : mapping of str to Words
        See :func:`prmcal.harness.merging.naming.words.words_of_variants`.
    leaderboard : {"calibration", "scaling", "league"}
    """
    found: list[Namespace] = []
    for each in submissions:
        own = words[each.submission_id]
        cells = [cell for cell in each.plan.cells if cell.leaderboard == leaderboard]
        jobs: dict[Hashable, str] = {own.cell(cell).cell_id: cell.job.key for cell in cells}
        for (llm, dataset, split), key in each.measured[leaderboard].items():
            jobs[own.plugin("llm", llm), own.dataset(dataset, split)] = key
        conditions = each.conditions[leaderboard]
        alike = (space for space in found if compatible(conditions, space.conditions))
        fitting = next((space for space in alike if compatible(jobs, space.jobs)), None)
        if fitting is None:
            fitting = Namespace()
            found.append(fitting)
        fitting.add(each, leaderboard, jobs)
    return found


def llm_words(namespaces: Sequence[Namespace], words: Mapping[str, Words]) -> list[dict[str, str]]:
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
    """Return the differences of the conditions that are known of all, from those that decide for the most rows on."""
    every = [space.every for space in namespaces]
    own = {name for space in namespaces for name in (*space.conditions, *space.further)}
    known = {name for each in every for name in each if all(name in other for other in every)}
    of_rows = {name for name in known & own if not name.startswith(OF_METRICS)}
    for names in (of_rows, known & own, known):
        described = [{name: value for name, value in each.items() if name in names} for each in every]
        found = words_apart(described)
        if len(set(found)) == len(found):
            return found
    return [f"submission {space.submissions[0].submission_id[:8]}" for space in namespaces]
