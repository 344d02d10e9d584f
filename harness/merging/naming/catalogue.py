"""The plugins, data sets and metrics of a merged leaderboard, in their order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from prmcal.db.metrics import Metric
from prmcal.errors import BundleError
from prmcal.harness.jobs.job import Labels
from prmcal.harness.merging.naming.names import Names
from prmcal.harness.merging.naming.order import merged_order
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import PlannedPlugin, PlannedQuestions
from prmcal.harness.planning.resolved import built_in_metrics, described_metrics
from prmcal.registry.messages import shown
from prmcal.registry.plugins import metrics

__all__ = ["Catalogue"]

_DATASET = "dataset"
_OWN_METRICS = "prmcal.registry.metrics."


class Catalogue:
    """The plugins, data sets and metrics of all submissions.

    Plugins have the order of most submissions, and variants of one name stand together. See
    :func:`prmcal.harness.merging.naming.order.merged_order`.

    Parameters
    ----------
    submissions : sequence of Submitted
        In their order.
    names : Names
    llms : collection of str
        The names of the LLMs of all jobs. An LLM can have further names, which are not used.

    Attributes
    ----------
    base_names : dict of (str, str) to str
        The names of plugins in the grids, by their kinds and their names on the leaderboard.
    """

    def __init__(self, submissions: Sequence[Submitted], names: Names, llms: Collection[str]) -> None:
        self._submissions = submissions
        self._names = names
        self._llms = llms
        self.base_names: dict[tuple[str, str], str] = {}
        self._kinds = list(dict.fromkeys(kind for each in submissions for kind in each.plan.plugins))
        self._places: dict[tuple[str, str], int] = {}
        for kind in self._kinds:
            order = merged_order(each.orders.get(kind, ()) for each in submissions)
            variants: dict[str, dict[str, None]] = {name: {} for name in order}
            for base, name, _ in self._named(kind):
                variants.setdefault(base, {})[name] = None
                self.base_names[kind, name] = base
            for name in (name for names in variants.values() for name in names):
                self._places[kind, name] = len(self._places)

    def place(self, kind: str, name: str) -> int:
        """Return the place of a plugin among those of its kind; -1 for an empty name."""
        return self._places.get((kind, name), -1)

    def places(self, labels: Labels) -> tuple[int, ...]:
        """Return the places of the plugins of a job or a cell."""
        named = (
            ("llm", labels.llm),
            ("prm", labels.prm),
            ("calibrator", labels.calibrator),
            (_DATASET, labels.dataset),
        )
        return tuple(self.place(kind, name) for kind, name in named)

    def plugins(self) -> dict[str, tuple[PlannedPlugin[Any], ...]]:
        """Return the plugins of each kind in their order."""
        found: dict[str, tuple[PlannedPlugin[Any], ...]] = {}
        for kind in self._kinds:
            first: dict[str, PlannedPlugin[Any]] = {}
            for _, name, plugin in self._named(kind):
                first.setdefault(name, replace(plugin, reference=replace(plugin.reference, name=name)))
            found[kind] = tuple(
                first[name] for name in sorted(first, key=lambda name: self.place(kind, name))
            )
        return found

    def datasets(self) -> tuple[PlannedQuestions, ...]:
        """Return the questions of each split in use: with their texts, if a submission has them."""
        found: dict[tuple[str, str], PlannedQuestions] = {}
        for each in self._submissions:
            for data in each.plan.datasets:
                name = self._names.dataset(each, data.name, data.split)
                known = found.get((name, data.split))
                if known is None or (_has_texts(data) and not _has_texts(known)):
                    found[name, data.split] = replace(data, name=name)
        return tuple(found[key] for key in sorted(found, key=lambda key: (self.place(_DATASET, key[0]), key)))

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

    def _named(self, kind: str) -> Iterator[tuple[str, str, PlannedPlugin[Any]]]:
        """Yield the plugins of a kind with their names in the grid and on the leaderboard, namespace by namespace."""
        for submission in sorted(self._submissions, key=lambda each: (self._names.place(each), each.place)):
            # By their names, since the order of one submission does not count.
            for plugin in sorted(submission.plan.plugins.get(kind, ()), key=lambda plugin: plugin.name):
                if kind != _DATASET:
                    names = list(self._names.plugins(submission, kind, plugin.name))
                    used = [name for name in names if kind != "llm" or name in self._llms]
                    yield from ((plugin.name, name, plugin) for name in used or names[:1])
                    continue
                for data in submission.plan.datasets:
                    if data.name == plugin.name:
                        yield data.name, self._names.dataset(submission, data.name, data.split), plugin


def _described_here(submissions: Sequence[Submitted]) -> dict[str, Metric]:
    """Return how this version of prmcal describes the columns of its own metrics, under their names in the grids."""
    found = {metric.name: metric for metric in built_in_metrics()}
    own = {name for name, where in metrics.names().items() if where.startswith(_OWN_METRICS)}
    columns = {metric.name for each in submissions for metric in each.plan.metrics}
    planned = (plugin for each in submissions for plugin in each.plan.plugins.get("metric", ()))
    entries = {(plugin.name, plugin.reference.plugin) for plugin in planned if plugin.reference.plugin in own}
    # The built-in names come first, so that no entry of a grid takes one of them.
    for name, plugin in sorted(entries, key=lambda each: (each[0] != each[1], each)):
        levels = [_levels_of(name, columns)]
        for metric in described_metrics([(name, metrics.create(plugin))], levels, terminal=False):
            found.setdefault(metric.name, metric)
    return found


def _levels_of(name: str, columns: Iterable[str]) -> list[float]:
    """Return the levels beta of the columns of a metric that is measured at several levels."""
    found = (re.fullmatch(rf"{re.escape(name)}_(0\.\d+)(_with_terminal)?", column) for column in columns)
    return sorted({float(each[1]) for each in found if each})


def _has_texts(data: PlannedQuestions) -> bool:
    return all(question.text is not None for question in data.questions)
