"""The versions and conditions in which two leaderboards differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.harness.merging.submissions.conditions import (
    OF_METRICS,
    conditions_of,
    fit_conditions_of,
    flat,
    further_conditions_of,
    shard_conditions_of,
)
from prmcal.harness.merging.submissions.folder import is_merged
from prmcal.harness.merging.submissions.inputs import merged_submissions
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord

__all__ = ["Difference", "differences_between"]


@dataclass(frozen=True)
class Difference:
    """A property in which two leaderboards differ.

    Attributes
    ----------
    what : str
        Such as ``seed`` or ``calibrator temperature: version``.
    first, other : tuple of str
        Its values in each, sorted. A merged leaderboard may have several.
    """

    what: str
    first: tuple[str, ...]
    other: tuple[str, ...]


def differences_between(first: Path, other: Path) -> list[Difference]:
    """Return the versions and conditions in which two leaderboards differ, as far as both have them.

    Parameters
    ----------
    first, other : Path
        Folders of runs, or merged leaderboards.

    Raises
    ------
    PrmcalError
        If one of them has no run, or is damaged.
    """
    a, b = _properties(first), _properties(other)
    return [
        Difference(name, tuple(sorted(a[name])), tuple(sorted(b[name])))
        for name in a
        if name in b and a[name] != b[name]
    ]


def _properties(directory: Path) -> dict[str, set[str]]:
    """Return the values of each property of a leaderboard, as text."""
    found: dict[str, set[str]] = {}
    for record, plan in _plans(directory):
        for name, value in _of_plan(record, plan):
            found.setdefault(name, set()).add(str(value))
    return found


def _plans(directory: Path) -> Iterable[tuple[RunRecord, Plan]]:
    if is_merged(directory):
        return [(each.record, each.plan) for each in merged_submissions(directory)]
    folder = RunFolder(directory)
    return [(folder.record(), existing_plan(folder))]


def _of_plan(record: RunRecord, plan: Plan) -> Iterator[tuple[str, Any]]:
    parts = [*conditions_of(record, plan).values(), *further_conditions_of(record).values()]
    conditions: dict[str, Any] = {}
    for part in (*parts, fit_conditions_of(record, plan), shard_conditions_of(record)):
        conditions |= part
    yield from ((name, value) for name, value in conditions.items() if not name.startswith(OF_METRICS))
    for kind, plugins in plan.plugins.items():
        for plugin in plugins:
            identity: Mapping[str, Any] = flat(plugin.identity)
            yield from (
                (f"{kind} {plugin.name}: {name}", value) for name, value in identity.items() if name != "kind"
            )
    for data in plan.datasets:
        yield f"data set {data.name}/{data.split}: questions", len(data.questions)
        yield f"data set {data.name}/{data.split}: content", data.content_hash
        yield f"data set {data.name}/{data.split}: grader", data.grader_version
