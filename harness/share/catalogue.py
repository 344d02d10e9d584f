"""The plugins, data sets and metrics of a merged leaderboard, in the order that most submissions give them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from prmcal.db.metrics import Metric
from prmcal.errors import BundleError
from prmcal.harness.planning.plan import Cell, PlannedPlugin, PlannedQuestions
from prmcal.harness.planning.resolved import built_in_metrics, described_metrics
from prmcal.harness.share.submissions import Submitted
from prmcal.registry.messages import shown
from prmcal.registry.plugins import metrics

__all__ = ["Catalogue", "merged_order"]

_OWN_METRICS = "prmcal.registry.metrics."


class Catalogue:
    """The plugins, data sets and metrics of all submissions. Of several versions of one name, the newest is described.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    """

    def __init__(self, submissions: Sequence[Submitted]) -> None:
        self._submissions = submissions
        self._newest: dict[str, dict[str, PlannedPlugin[Any]]] = {}
        for each in submissions:
            for kind, plugins in each.plan.plugins.items():
                self._newest.setdefault(kind, {}).update({plugin.name: plugin for plugin in plugins})
        self._places: dict[tuple[str, str], int] = {}
        for kind, known in self._newest.items():
            order = merged_order(_order(each, kind) for each in submissions)
            for name in dict.fromkeys([*order, *sorted(known)]):
                self._places[kind, name] = len(self._places)

    def place_of(self, cell: Cell) -> tuple[object, ...]:
        """Return the place of a cell, in the order in which a grid plans its cells."""
        labels = cell.labels
        names = {
            "llm": labels.llm,
            "prm": labels.prm,
            "calibrator": labels.calibrator,
            "dataset": labels.dataset,
        }
        level, target = (-1.0 if each is None else each for each in (cell.level, cell.target))
        strategy = self._places.get(("strategy", cell.strategy), -1)
        places = [self._places.get(each, -1) for each in names.items()]
        return (*places, cell.leaderboard, level, strategy, target)

    def plugins(self) -> dict[str, tuple[PlannedPlugin[Any], ...]]:
        """Return the plugins of each kind in their order."""
        return {
            kind: tuple(known[name] for name in sorted(known, key=lambda name: self._places[kind, name]))
            for kind, known in self._newest.items()
        }

    def datasets(self) -> tuple[PlannedQuestions, ...]:
        """Return the questions of each split, those of the largest selection, with their texts if there are any."""
        found: dict[tuple[str, str], PlannedQuestions] = {}
        texts: dict[tuple[str, str, str], tuple[str | None, str | None]] = {}
        for each in self._submissions:
            for data in each.plan.datasets:
                known = found.setdefault((data.name, data.split), data)
                if len(data.questions) >= len(known.questions):
                    found[data.name, data.split] = data
                for question in data.questions:
                    if question.text is not None:
                        texts[data.name, data.split, question.id] = question.text, question.answer
        for (name, split), data in found.items():
            questions = []
            for question in data.questions:
                text, answer = texts.get((name, split, question.id), (None, None))
                questions.append(replace(question, text=text, answer=answer))  # type: ignore[arg-type]
            found[name, split] = replace(data, questions=tuple(questions))
        return tuple(
            found[key]
            for key in sorted(found, key=lambda key: (self._places.get(("dataset", key[0]), -1), key))
        )

    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics in the order of columns.

        This version of prmcal describes its own metrics, whatever a submission says of them. The others are described
        by the oldest submission that has them.

        Raises
        ------
        BundleError
            If two submissions disagree which values of a metric are better.
        """
        found = _described_here(self._submissions)
        first: dict[str, tuple[Submitted, Metric]] = {}
        for each in self._submissions:
            for metric in each.plan.metrics:
                if metric.name not in found:
                    source, known = first.setdefault(metric.name, (each, metric))
                    if metric.better != known.better:
                        raise BundleError(
                            f"The submissions {source.submission_id} and {each.submission_id} disagree which values of "
                            f"the metric {shown(metric.name)} are better: {known.better or 'none'} or "
                            f"{metric.better or 'none'}. Merge only one of them."
                        )
        found |= {name: metric for name, (_, metric) in first.items()}
        return tuple(
            found[name]
            for name in merged_order(
                [metric.name for metric in each.plan.metrics] for each in self._submissions
            )
        )


def merged_order(orders: Iterable[Sequence[str]]) -> list[str]:
    """Return all names in the order that most sources have, which does not depend on the order of the sources.

    For each pair of names, the majority of the sources with both decides which comes first, else the alphabet. If
    majorities contradict each other in a circle, the name with the fewest names before it is taken first.

    Parameters
    ----------
    orders : iterable of sequence of str
        The order of each source. Each name is in it once.
    """
    before: Counter[tuple[str, str]] = Counter()
    names: set[str] = set()
    for order in orders:
        names.update(order)
        before.update(combinations(order, 2))
    preceding = {
        name: {other for other in names if before[other, name] > before[name, other]} for name in names
    }
    found: list[str] = []
    while names:
        # Without a circle, a name without predecessors is always left.
        first = min(names, key=lambda name: (len(preceding[name] & names), name))
        names.remove(first)
        found.append(first)
    return found


def _order(submission: Submitted, kind: str) -> list[str]:
    names = [plugin.name for plugin in submission.plan.plugins.get(kind, ())]
    if kind != "dataset":
        return names
    # In a plan, data that is only used to calibrate comes last, which says nothing about its place.
    tested = dict.fromkeys(each["name"] for each in submission.record.grid.get("datasets", ()))
    return [name for name in tested if name in names]


def _described_here(submissions: Sequence[Submitted]) -> dict[str, Metric]:
    """Return how this version of prmcal describes the columns of its own metrics, under their names in the grids."""
    found = {metric.name: metric for metric in built_in_metrics()}
    own = {name for name, where in metrics.names().items() if where.startswith(_OWN_METRICS)}
    columns = {metric.name for each in submissions for metric in each.plan.metrics}
    planned = (plugin for each in submissions for plugin in each.plan.plugins.get("metric", ()))
    entries = {(plugin.name, plugin.reference.plugin) for plugin in planned if plugin.reference.plugin in own}
    # The built-in names come first, so that no entry of a grid takes one of them.
    for name, plugin in sorted(entries, key=lambda each: (each[0] != each[1], each)):
        matches = (re.fullmatch(rf"{re.escape(name)}_(0\.\d+)(_with_terminal)?", each) for each in columns)
        levels = sorted({float(each[1]) for each in matches if each})
        for metric in described_metrics([(name, metrics.create(plugin))], [levels], terminal=False):
            found.setdefault(metric.name, metric)
    return found
