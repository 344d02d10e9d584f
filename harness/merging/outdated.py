"""Versions of jobs, plugins and graders behind a cell that are no longer current."""

from __future__ import annotations

from functools import cache
from typing import Any

from prmcal.errors import PrmcalError
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters, parameters_of
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell
from prmcal.registry.plugins import KINDS, datasets

__all__ = ["outdated"]

_WITHOUT_FILES = ("strategy", "metric")
"""Kinds of plugins whose identity follows from their arguments. That of a model reads its files."""


def outdated(submission: Submitted, cell: Cell) -> str:
    """Return the versions behind a cell of a submission that are no longer current; empty if all are.

    Returns
    -------
    str
        Such as ``calibration_metrics 5, now 6; grader 2, now 3``. Plugins that are not registered on this machine are
        not compared, and neither is what an earlier version of prmcal did not save.
    """
    jobs = _behind(cell.job)
    told = {_of_kind(job.kind, job.shards[0].version): None for job in jobs if job.shards[0].version}
    names = {
        (kind, name)
        for job in jobs
        for kind, name in (
            ("llm", job.labels.llm),
            ("prm", job.labels.prm),
            ("calibrator", job.labels.calibrator),
        )
    } | {("strategy", cell.strategy)}
    for kind, plugins in submission.plan.plugins.items():
        for plugin in plugins:
            if (kind, plugin.name) in names or (kind == "metric" and cell.leaderboard == "calibration"):
                arguments = _Frozen(sorted(plugin.reference.arguments.items()))
                version = plugin.identity.get("version")
                told[_of_plugin(kind, plugin.reference.plugin, arguments, version)] = None
    splits = {(job.labels.dataset, job.labels.split) for job in jobs}
    references = {each.name: each.reference for each in submission.plan.plugins.get("dataset", ())}
    for data in submission.plan.datasets:
        if (data.name, data.split) in splits and data.name in references:
            arguments = _Frozen(sorted(references[data.name].arguments.items()))
            told[_of_grader(references[data.name].plugin, arguments, data.grader_version)] = None
    return "; ".join(sorted(text for text in told if text))


class _Frozen(tuple[Any, ...]):
    """Arguments as a key of a cache, even if a value is a list."""

    def __hash__(self) -> int:
        return hash(repr(self))


def _behind(job: Job[Parameters]) -> list[Job[Parameters]]:
    found: dict[int, Job[Parameters]] = {}
    waiting = [job]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            found[id(each)] = each
            waiting += each.inputs
    return list(found.values())


@cache
def _of_kind(kind: str, version: int) -> str:
    now = parameters_of(kind).version
    return f"{kind} {version}, now {now}" if version != now else ""


@cache
def _of_plugin(kind: str, name: str, arguments: _Frozen, version: Any) -> str:
    try:
        now = getattr(KINDS[kind].get(name), "version", version)
        if now != version and kind in _WITHOUT_FILES:
            # A new version may change nothing for these arguments. Then the identity keeps the old one.
            now = KINDS[kind].create(name, **dict(arguments)).identity().get("version", now)
    except PrmcalError:
        # It is not registered, its package is not installed, or it no longer has these arguments.
        return ""
    return f"{name} {version}, now {now}" if version is not None and version != now else ""


@cache
def _of_grader(name: str, arguments: _Frozen, version: str) -> str:
    try:
        now = datasets.create(name, **dict(arguments)).grader_version
    except PrmcalError:
        return ""
    return f"grader {version}, now {now}" if version != now else ""
