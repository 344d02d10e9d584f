"""The plan of a run, saved in its folder, so that the folder can be read without the plugins and the data of the grid.

The file is JSON, and nothing in it is executed. A plan can have hundreds of thousands of shards. Therefore common parts
of the shards of a job are written once, and inputs are positions in the plan. Of successive positions, only the first
and the number are written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from prmcal.db.metrics import MetricColumn
from prmcal.db.run_folder import PLAN_FILE
from prmcal.errors import RunError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import Job, JobLabels, Refs, Shard
from prmcal.harness.planning.plan import Plan, PlannedCell, PlannedPlugin, PlannedQuestions
from prmcal.harness.storage.folder import RunFolder, one_problem
from prmcal.harness.storage.store import ArtifactRef, content_key, write_atomically
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import load_plugin_file

_OF_CELLS = ("leaderboard", "strategy", "target", "level", "source", "difference")
_OF_PLUGINS = ("identity", "citation", "absent")
_METRICS = TypeAdapter(dict[str, tuple[MetricColumn, ...]])
_reader = cache(TypeAdapter)


def write_plan(directory: Path, grid: Mapping[str, Any], plan: Plan) -> None:
    """Replace the saved plan of a folder.

    `grid` is the data of the grid, as in the record of the run.

    Raises a StorageError if the disk is full or not writable.
    """
    write_atomically(directory / PLAN_FILE, _text_of(grid, plan))


def is_saved_plan(directory: Path, grid: Mapping[str, Any], plan: Plan) -> bool:
    """Return whether this is the saved plan of a folder."""
    try:
        return (directory / PLAN_FILE).read_text(encoding="utf-8") == _text_of(grid, plan)
    except (OSError, ValueError):
        return False


def _text_of(grid: Mapping[str, Any], plan: Plan) -> str:
    values: dict[str, tuple[int, Any]] = {}
    numbers = {job: number for number, job in enumerate(plan.jobs)}
    content = {
        "grid": content_key(grid),
        "plugins": {
            kind: [
                {"reference": asdict(plugin.reference), **{name: getattr(plugin, name) for name in _OF_PLUGINS}}
                for plugin in plugins
            ]
            for kind, plugins in plan.plugins.items()
        },
        "datasets": [
            {**asdict(replace(data, questions=())), "questions": list(map(astuple, data.questions))}
            for data in plan.datasets
        ],
        "metrics": [asdict(metric) for metric in plan.metrics],
        "jobs": list(_jobs_data(plan, numbers, values)),
        "cells": [
            {
                "labels": asdict(cell.labels),
                "job": numbers[cell.job],
                **{name: getattr(cell, name) for name in _OF_CELLS},
            }
            for cell in plan.cells
        ],
        "values": [value for _, value in values.values()],
    }
    return json.dumps(content, separators=(",", ":")) + "\n"


def read_plan(directory: Path, grid: Mapping[str, Any]) -> Plan:
    """Read the saved plan of a folder. No plugin is built and no data set is read.

    `grid` is the data of the grid, as in the record of the run.

    Raises a RunError if the file is damaged or missing, or is the plan of another grid because a run was killed at its
    start.
    """
    path = directory / PLAN_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["grid"] != content_key(grid):
            raise ValueError("it is the plan of another grid")
        return _plan(content)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing. Run the grid again: finished work is kept.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise RunError(
            f"{path} is damaged or of an older version of prmcal ({excerpt(message_of(error))}). Run the grid again: "
            "finished work is kept, except that of an older version."
        ) from error


def existing_plan(folder: RunFolder) -> Plan:
    """Return the saved plan of the latest run of a folder.

    Raises a RunError if no grid was run in the folder, or the saved plan is damaged or missing.
    """
    return read_plan(folder.directory, folder.record().grid)


def load_plugins_of(folder: RunFolder) -> None:
    """Load the plugin files of the latest run of a folder. The file may come from somebody else.

    Raises a RunError if no grid was run in the folder. Raises a PluginError if a file is no longer there, cannot be
    loaded, or was never named on this machine.
    """
    for file in folder.record().plugin_files:
        load_plugin_file(Path(file), named=False)


def _jobs_data(
    plan: Plan, numbers: Mapping[Job[parameters.Parameters], int], values: dict[str, tuple[int, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the data of jobs. `values` gets parts of the identities of shards, by their JSON: positions and values."""

    def position(value: Any) -> int:
        number, _ = values.setdefault(json.dumps(value, sort_keys=True), (len(values), value))
        return number

    positions: dict[ArtifactRef, int] = {}
    runs: dict[tuple[ArtifactRef, ...], list[int]] = {}  # Thousands of shards read the same artifacts.
    for job in plan.jobs:
        first = job.shards[0]
        for shard in job.shards:
            positions.setdefault(shard.ref, len(positions))
            for refs in shard.inputs.values():
                if refs not in runs:
                    runs[refs] = _runs([positions[ref] for ref in refs])
        yield {
            "key": job.key,
            "kind": job.kind,
            "labels": asdict(job.labels),
            "inputs": [numbers[source] for source in job.inputs],
            "resource": first.resource,
            "parameters": parameters.plain_data(first.parameters),
            "roles": list(first.inputs),
            "shards": [shard.ref.key for shard in job.shards],
            "ranges": [
                [end for part in shard.parameters.ranges for end in (part.start, part.stop)] for shard in job.shards
            ],
            "reads": [[runs[refs] for refs in shard.inputs.values()] for shard in job.shards],
            "version": first.version,
            "identity": list(first.identity),
            "identities": [[position(shard.identity[name]) for name in first.identity] for shard in job.shards],
        }


def _runs(positions: Sequence[int]) -> list[int]:
    """Return the first position and the number of positions of each run of successive ones, in one list."""
    runs: list[int] = []
    for position in positions:
        if runs and position == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [position, 1]
    return runs


def _plan(content: Mapping[str, Any]) -> Plan:
    jobs: list[Job[parameters.Parameters]] = []
    refs: list[ArtifactRef] = []
    seen_refs: set[ArtifactRef] = set()
    shared: dict[tuple[int, ...], Refs] = {}
    for job in content["jobs"]:
        job_refs = [ArtifactRef(job["kind"], key) for key in job["shards"]]
        refs += [ref for ref in job_refs if ref not in seen_refs]
        seen_refs.update(job_refs)
        shards = tuple(_shards(job, job_refs, refs, shared, content["values"]))
        inputs = tuple(jobs[number] for number in job["inputs"])
        jobs.append(Job(job["key"], JobLabels(**job["labels"]), shards, inputs))
    cells = [
        PlannedCell(
            labels=JobLabels(**cell["labels"]),
            job=jobs[cell["job"]],
            # Earlier plans have other optional fields.
            **{name: cell[name] for name in _OF_CELLS if name in cell},
        )
        for cell in content["cells"]
    ]
    plugins: dict[str, tuple[PlannedPlugin[Plugin], ...]] = {
        kind: tuple(
            PlannedPlugin(parameters.PluginReference(**plugin["reference"]), *(plugin[name] for name in _OF_PLUGINS))
            for plugin in plugins_of_kind
        )
        for kind, plugins_of_kind in content["plugins"].items()
    }
    datasets = []
    for data in content["datasets"]:
        # Rows of earlier plans end before the fields.
        questions = tuple(
            replace(Question(*row[:5]), options=tuple(row[5]), fields=tuple(map(tuple, row[6] if row[6:] else ())))
            for row in data["questions"]
        )
        datasets.append(PlannedQuestions(**{**data, "questions": questions}))
    with one_problem():
        metrics = _METRICS.validate_python({"metrics": content["metrics"]})["metrics"]
    if len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError("it describes a metric twice")
    return Plan(tuple(jobs), tuple(cells), plugins, tuple(datasets), metrics)


def _shards(
    job: Mapping[str, Any],
    job_refs: Sequence[ArtifactRef],
    refs: Sequence[ArtifactRef],
    shared: dict[tuple[int, ...], Refs],
    values: Sequence[Any],
) -> Iterator[Shard[parameters.Parameters]]:
    cls: Any = parameters.KINDS_OF_JOBS[job["kind"]][0]
    with one_problem():
        common = vars(_reader(cls).validate_python(job["parameters"]))
    names = [name for name, value in common.items() if isinstance(value, range)]
    slices: dict[tuple[int, int], parameters.QuestionSlice] = {}
    for ref, (first, stop, *ends), reads, places in zip(
        job_refs, job["ranges"], job["reads"], job["identities"], strict=True
    ):
        if (first, stop) not in slices:
            slices[first, stop] = replace(common["data"], questions=range(first, stop))
        ranges = {name: range(*ends[2 * place : 2 * place + 2]) for place, name in enumerate(names)}
        inputs = {}
        for role, runs in zip(job["roles"], map(tuple, reads), strict=True):
            if runs not in shared:
                pairs = zip(runs[::2], runs[1::2], strict=True)
                shared[runs] = Refs(ref for begin, count in pairs for ref in refs[begin : begin + count])
            inputs[role] = shared[runs]
        work: parameters.Parameters = cls(**{**common, **ranges, "data": slices[first, stop]})
        identity = {name: values[place] for name, place in zip(job["identity"], places, strict=True)}
        yield Shard(ref, work, inputs, job["resource"], identity, job["version"])
