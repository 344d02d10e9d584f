"""The names of plugins and data sets on a merged leaderboard.

Two submissions may use one name for two things: two versions of a calibrator, a calibrator that is fitted to other
data, or two selections of questions. Then each of them gets a name with what differs, such as ``temperature (version
2)`` or ``nano-math (60 questions)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prmcal.harness.jobs.job import Labels
from prmcal.harness.merging.naming.differences import words_apart
from prmcal.harness.merging.submissions.conditions import flat
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell, PlannedPlugin, PlannedQuestions
from prmcal.harness.storage.store import content_key

__all__ = ["Words", "named", "words_of_variants"]

_NAMED = ("llm", "prm", "calibrator", "strategy")
"""The kinds of plugins whose names are in the ids of cells, besides data sets."""

_OF_FITS = "calibration "
"""What the names of most conditions of fits begin with."""


def named(name: str, *words: str) -> str:
    """Return a name with the words that tell it apart, if there are any."""
    told = [each for each in words if each]
    return f"{name} ({', '.join(told)})" if told else name


@dataclass(frozen=True)
class Words:
    """What tells the plugins and data sets of one submission apart from others of the same names.

    Attributes
    ----------
    plugins : mapping of (str, str) to str
        The words by the kind and the name of a plugin; empty if nothing differs.
    datasets : mapping of (str, str) to str
        The words by the name and the split of a data set.
    """

    plugins: Mapping[tuple[str, str], str]
    datasets: Mapping[tuple[str, str], str]

    def labels(self, labels: Labels, *llm_words: str) -> Labels:
        """Return labels with the names of the merged leaderboard. `llm_words` also tell the LLM apart."""
        return replace(
            labels,
            llm=labels.llm and named(labels.llm, self.plugins.get(("llm", labels.llm), ""), *llm_words),
            prm=labels.prm and self.plugin("prm", labels.prm),
            calibrator=labels.calibrator and self.plugin("calibrator", labels.calibrator),
            dataset=self.dataset(labels.dataset, labels.split),
        )

    def cell(self, cell: Cell, *llm_words: str) -> Cell:
        """Return a cell with the names of the merged leaderboard."""
        strategy = cell.strategy and self.plugin("strategy", cell.strategy)
        return replace(cell, labels=self.labels(cell.labels, *llm_words), strategy=strategy)

    def plugin(self, kind: str, name: str) -> str:
        """Return the name of a plugin."""
        return named(name, self.plugins.get((kind, name), ""))

    def dataset(self, name: str, split: str) -> str:
        """Return the name of a data set."""
        return named(name, self.datasets.get((name, split), ""))

    def of_cell(self, cell: Cell) -> list[str]:
        """Return what tells a cell apart, with the kinds of its plugins: ``calibrator version 2``."""
        labels = cell.labels
        names = {
            "llm": labels.llm,
            "prm": labels.prm,
            "calibrator": labels.calibrator,
            "strategy": cell.strategy,
        }
        found = [(kind, self.plugins.get((kind, name), "")) for kind, name in names.items()]
        found.append(("data set", self.datasets.get((labels.dataset, labels.split), "")))
        return [f"{kind} {words}" for kind, words in found if words]


def words_of_variants(submissions: Sequence[Submitted]) -> dict[str, Words]:
    """Return the words of each submission, by its id.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    """
    plugins = _words(
        (
            each.submission_id,
            (kind, plugin.name),
            {"plugin": plugin.identity, **fits},
            _described(plugin, fits),
        )
        for kind in _NAMED
        for each, plugin, fits in _plugins(submissions, kind)
    )
    datasets = _words(
        (each.submission_id, (data.name, data.split), _questions(data), _questions(data))
        for each in submissions
        for data in each.plan.datasets
    )
    return {
        each.submission_id: Words(plugins.get(each.submission_id, {}), datasets.get(each.submission_id, {}))
        for each in submissions
    }


def _plugins(
    submissions: Sequence[Submitted], kind: str
) -> Iterator[tuple[Submitted, PlannedPlugin[Any], Mapping[str, Any]]]:
    """Yield the plugins of a kind. Calibrators have the conditions of their fits that all submissions tell."""
    having: dict[str, list[tuple[Submitted, PlannedPlugin[Any]]]] = {}
    for each in submissions:
        for plugin in each.plan.plugins.get(kind, ()):
            having.setdefault(plugin.name, []).append((each, plugin))
    for users in having.values():
        known = set.intersection(*(set(each.fit_conditions) for each, _ in users))
        for each, plugin in users:
            fits = each.fit_conditions if kind == "calibrator" else {}
            yield each, plugin, {name: value for name, value in fits.items() if name in known}


def _described(plugin: PlannedPlugin[Any], fits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a plugin and the conditions of its fits, with short names where they are clear."""
    found = flat(plugin.identity)
    short = {name: name.removeprefix(_OF_FITS) for name in fits}
    return found | {name if short[name] in found else short[name]: value for name, value in fits.items()}


def _questions(data: PlannedQuestions) -> dict[str, Any]:
    return {"questions": len(data.questions), "content": data.content_hash, "grader": data.grader_version}


def _words(
    given: Iterable[tuple[str, tuple[str, str], Mapping[str, Any], Mapping[str, Any]]],
) -> dict[str, dict[tuple[str, str], str]]:
    """Return the words of each name in each submission, from its identity and the identity's description."""
    users: dict[tuple[str, str], dict[str, list[str]]] = {}
    described: dict[str, Mapping[str, Any]] = {}
    for submission, name, identity, properties in given:
        key = content_key(identity)
        users.setdefault(name, {}).setdefault(key, []).append(submission)
        described[key] = properties
    found: dict[str, dict[tuple[str, str], str]] = {}
    for name, variants in users.items():
        for words, ids in zip(
            words_apart([described[key] for key in variants]), variants.values(), strict=True
        ):
            for submission in ids:
                found.setdefault(submission, {})[name] = words
    return found
