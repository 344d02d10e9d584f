"""One plan for several runs, and how runs differ under equal keys.

It has the rows of all runs. Two grids cannot be merged if a name means different things: a plugin or a data set, or an
LLM if the grids differ in a parameter, such as the seed.

If several runs have an artifact, the first run's is kept. If another run's artifact has other bytes, the affected rows
say by how much. Results are measured from samples and their grades: if these differ under one key, the runs cannot be
merged.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prmcal.db.metrics import MetricColumn
from prmcal.errors import RunError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Job, JobLabels, job_key
from prmcal.harness.jobs.parameters import MeasuringParameters, Parameters
from prmcal.harness.merging.checks import Source
from prmcal.harness.merging.tables import differences, result_differences
from prmcal.harness.planning.plan import Plan, PlannedCell, PlannedPlugin, PlannedQuestions
from prmcal.harness.storage.store import ArtifactRef, Store, content_key

_SAMPLED = ("rollout", "follow_ups", "imported")
"""The kinds of jobs whose outputs results are measured from."""
_OF_CELL = ("strategy", "target", "level")
"""Parameters of a measurement in which the cells of one setting differ."""

_Node = tuple[str, JobLabels]
"""A job: the key that follows from its shards, and its labels."""
_Sizes = dict[str, float]
"""The largest difference of values, by their name. NaN if they are no numbers."""


@dataclass(frozen=True)
class Union:
    """The plan of several runs, and the parts that each run has."""

    sources: tuple[Source, ...]
    plan: Plan
    holders: Mapping[ArtifactRef, Source]
    """The run that each finished artifact is taken from."""
    failures: Mapping[str, Failure]
    """The reasons why shards failed that no run has."""


def union_of(sources: Sequence[Source]) -> Union:
    """Return the union of one or more runs. Common parts are taken from the first run.

    Raises a RunError if two runs have different samples under one key, different things under one name, or disagree on
    which values of a metric are better.
    """
    builder = _Builder()
    for source in sources:
        builder.add(source)
    return builder.union()


class _Builder:
    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.holders: dict[ArtifactRef, Source] = {}
        self.plugins: dict[str, dict[str, PlannedPlugin[Any]]] = defaultdict(dict)
        self.datasets: dict[tuple[str, str], PlannedQuestions] = {}
        self.metrics: dict[str, MetricColumn] = {}
        self.measurements: dict[tuple[str, ...], set[str]] = {}
        self.jobs: dict[_Node, Job[Parameters]] = {}
        self.keys: set[str] = set()
        self.cells: dict[str, PlannedCell] = {}

    def add(self, source: Source) -> None:
        """Add a run.

        Raises a RunError if a name has another meaning in an earlier run.
        """
        plan = source.plan
        for kind, name in [*self._conflicting_plugins(plan), *(("llm", name) for name in self._other_llms(plan))]:
            raise RunError(
                f"In {source.folder} and in a run before it, the name '{name}' ({kind}) has different meanings or "
                "other parameters, such as the seed. Nothing was merged. Change the name in one of the grids and run "
                "that grid again with --drop-cells: nothing is computed again, because keys hold no names."
            )
        self.sources.append(source)
        for ref in source.manifests:
            self.holders.setdefault(ref, source)
        for metric in plan.metrics:
            if self.metrics.setdefault(metric.name, metric).better != metric.better:
                raise RunError(
                    f"{source.folder} and a run before it disagree on which values of the metric '{metric.name}' are "
                    "better. Nothing was merged. Give the metric another name in one of the grids."
                )
        for kind, plugins in plan.plugins.items():
            self.plugins[kind] = {plugin.name: plugin for plugin in plugins} | self.plugins[kind]
        self.datasets = {(data.name, data.split): data for data in plan.datasets} | self.datasets
        self.measurements = measurement_keys(plan) | self.measurements
        for job in plan.jobs:
            self._add_job(job)
        for cell in plan.cells:
            self.cells.setdefault(cell.cell_id, replace(cell, job=self.jobs[_node(cell.job)]))

    def _conflicting_plugins(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the plugins and data sets of a plan whose names have another meaning in the runs before."""
        planned = [(kind, plugin) for kind, plugins in plan.plugins.items() if kind != "metric" for plugin in plugins]
        conflicts = [
            (kind, plugin.name)
            for kind, plugin in planned
            if self.plugins[kind].get(plugin.name, plugin).identity != plugin.identity
        ]
        datasets = [data for data in plan.datasets if self.datasets.get((data.name, data.split), data) != data]
        return [*conflicts, *(("dataset", data.name) for data in datasets)]

    def _other_llms(self, plan: Plan) -> set[str]:
        """Return the LLMs of a plan whose names have results of other parameters in the runs before."""
        measurements = measurement_keys(plan).items()
        of_measurements = {names[1] for names, keys in measurements if self.measurements.get(names, keys) != keys}
        return of_measurements | {
            cell.labels.llm for cell in plan.cells if self.cells.get(cell.cell_id, cell).job.refs != cell.job.refs
        }

    def _add_job(self, job: Job[Parameters]) -> None:
        node = _node(job)
        if node not in self.jobs:
            # Grids may have several names for it. In the database, each of them has a job of its own.
            key = content_key({"job": node[0], "names": str(job.labels)}) if node[0] in self.keys else node[0]
            self.keys.add(node[0])
            inputs = tuple(self.jobs[_node(source)] for source in job.inputs)
            self.jobs[node] = replace(job, key=key, inputs=inputs)

    def union(self) -> Union:
        """Compare common artifacts of several runs, and return the union."""
        sizes: dict[ArtifactRef, _Sizes] = {}
        behind = {source.folder: self._behind(self._unequal_artifacts(source, sizes)) for source in self.sources}
        failures: dict[str, Failure] = {}
        earlier: dict[tuple[Path, ArtifactRef], PlannedCell] = {}
        for source in reversed(self.sources):
            failures |= source.failures
            earlier |= {(source.folder, cell.job.refs[0]): cell for cell in source.plan.cells}
        cells = []
        for cell in self.cells.values():
            ref, node = cell.job.refs[0], _node(cell.job)
            if (holder := self.holders.get(ref)) is not None:
                inputs = _listed(sizes[unequal] for unequal in behind[holder.folder].get(node, ()))
                text = _listed([sizes[ref]]) if ref in sizes else f"its inputs ({inputs})" if inputs else ""
                before = earlier.get((holder.folder, ref), cell)
                run = before.source or holder.record.run_id
                cell = replace(cell, source=run, difference=text or before.difference)
            cells.append(cell)
        plugins = {kind: tuple(plugins_of_kind.values()) for kind, plugins_of_kind in self.plugins.items()}
        datasets, metrics = tuple(self.datasets.values()), tuple(self.metrics.values())
        plan = Plan(tuple(self.jobs.values()), tuple(cells), plugins, datasets, metrics)
        done = {ref.key for ref in self.holders}
        failures = {key: failure for key, failure in failures.items() if key not in done}
        return Union(tuple(self.sources), plan, self.holders, failures)

    def _unequal_artifacts(self, source: Source, sizes: dict[ArtifactRef, _Sizes]) -> set[ArtifactRef]:
        """Return the artifacts of a run that differ from those that are kept. Add the differences to `sizes`."""
        unequal = set()
        for ref, manifest in source.manifests.items():
            holder = self.holders[ref]
            if holder is source or holder.manifests[ref].files == manifest.files:
                continue
            sizes_by_name = artifact_differences(Store(holder.folder), Store(source.folder), ref)
            if sizes_by_name and ref.kind in _SAMPLED:
                raise RunError(
                    f"{holder.folder} and {source.folder} have different samples under one key ({ref.kind}/{ref.key}: "
                    f"{source.plan.job_of(ref)}), so their results cannot be compared. Nothing was merged. Draw "
                    "samples once, and copy their folder before they are scored on several machines. Or give one of "
                    "the grids another 'seed', and its LLM another name."
                )
            if sizes_by_name:
                unequal.add(ref)
                largest = sizes.setdefault(ref, {})
                largest |= {name: max(size, largest.get(name, size)) for name, size in sizes_by_name.items()}
        return unequal

    def _behind(self, unequal: set[ArtifactRef]) -> dict[_Node, set[ArtifactRef]]:
        """Return which of some artifacts are behind each job."""
        behind: dict[_Node, set[ArtifactRef]] = {}
        for node, job in self.jobs.items() if unequal else ():
            behind[node] = unequal.intersection(job.refs).union(*(behind[_node(source)] for source in job.inputs))
        return behind


def _node(job: Job[Parameters]) -> _Node:
    return job_key(job.refs), job.labels


def measurement_keys(plan: Plan) -> dict[tuple[str, ...], set[str]]:
    """Return the keys of samples and of their measurements, by kind of job, LLM, data set and split.

    Results of two grids can be compared if these are equal.
    """
    keys: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for job in plan.jobs:
        shard, labels = job.shards[0], job.labels
        names = job.kind, labels.llm, labels.dataset, labels.split
        if job.kind in _SAMPLED:
            keys[names].add(job_key(job.refs))
        elif isinstance(shard.parameters, MeasuringParameters):
            keys[names].add(content_key([shard.version, {**shard.identity, **dict.fromkeys(_OF_CELL)}]))
    return dict(keys)


def artifact_differences(first_store: Store, second_store: Store, ref: ArtifactRef) -> _Sizes:
    """Return the differences of two artifacts: of results by metric, of others under the name of their kind.

    The result is empty if they differ in rounding only.
    """
    manifests = first_store.manifest(ref, verify=False), second_store.manifest(ref, verify=False)
    files, other_files = (manifest.files if manifest else {} for manifest in manifests)
    sizes: list[float] = []
    for name in sorted(name for name in files.keys() | other_files.keys() if files.get(name) != other_files.get(name)):
        table = name.removesuffix(".parquet")
        if table == name or name not in files or name not in other_files:
            sizes.append(math.nan)
            continue
        tables = first_store.read(ref, table), second_store.read(ref, table)
        if table == "results" and (of_metrics := result_differences(*tables)):
            return of_metrics
        sizes += [difference.size for difference in differences(*tables)]
    numbers = [size for size in sizes if not math.isnan(size)]
    return {ref.kind.replace("_", " "): max(numbers, default=math.nan)} if sizes else {}


def _listed(sizes: Iterable[_Sizes]) -> str:
    """Return differences in words, such as ``brier 0.0081, adaptive_ce 0.002``."""
    largest: _Sizes = {}
    for name, size in (pair for named_sizes in sizes for pair in named_sizes.items()):
        largest[name] = size if math.isnan(largest.get(name, math.nan)) else max(size, largest[name])
    return ", ".join(name if math.isnan(size) else f"{name} {size:.2g}" for name, size in largest.items())
