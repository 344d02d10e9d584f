"""The conditions under which a submission was measured. Only rows with equal conditions are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from prmcal.db.metrics import Leaderboard
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import RunRecord

__all__ = [
    "EVERY_LEADERBOARD",
    "OF_METRICS",
    "SEED",
    "ByLeaderboard",
    "compatible",
    "conditions_of",
    "fit_conditions_of",
    "flat",
    "further_conditions_of",
    "measured_of",
    "shard_conditions_of",
]

ByLeaderboard = Mapping[Leaderboard, Mapping[str, Any]]
"""Conditions by their names in words, for each leaderboard."""

EVERY_LEADERBOARD: tuple[Leaderboard, ...] = get_args(Leaderboard)
SEED = "seed"
"""The condition in which replicates differ."""
OF_METRICS = "metric "
"""What the names of conditions begin with that belong to single metrics."""

_Fields = Mapping[str, Mapping[str, str]]
# The parts of the grid that decide for all rows of a leaderboard, and how their fields are called in the names of
# variants.
_OF_ALL: _Fields = {
    "sampling": {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max tokens",
        "stop": "stop",
    },
}
_OF_MEASUREMENT: _Fields = {
    "measurement": {
        "measured": "measured",
        "follow_ups": "follow-ups",
        "most_prefixes": "prefixes",
        "terminal": "terminal",
        "bins": "bins",
        "replicates": "replicates",
    },
}
_OF_POOL: _Fields = {"scaling": {"samples": "samples"}}
_OF_LEADERBOARD: Mapping[Leaderboard, _Fields] = {
    "calibration": {**_OF_ALL, **_OF_MEASUREMENT},
    "scaling": {**_OF_ALL, **_OF_POOL},
    "league": {**_OF_ALL, **_OF_POOL},
}
_OF_SHARDS: _Fields = {
    "shards": {"questions": "questions per shard", "trajectories": "trajectories per shard"},
}
_OF_FITS: _Fields = {
    "calibration": {
        "trajectories": "calibration trajectories",
        "follow_ups": "calibration follow-ups",
        "most_prefixes": "calibration prefixes",
        "terminal": "calibration terminal",
    },
}
_MEASURED: Mapping[Leaderboard, Sequence[str]] = {
    "calibration": ("success", "imported"),
    "scaling": ("rollout", "imported"),
    "league": ("rollout", "imported"),
}
"""The kinds of jobs with the data that a leaderboard measures."""
_FITTING = ("hidden", "features", "fit", "calibrated")
"""The kinds of jobs that only calibrators need."""


def conditions_of(record: RunRecord, plan: Plan) -> dict[Leaderboard, dict[str, Any]]:
    """Return what decides for all rows of each leaderboard of a submission, by names in words.

    They are the seed and the sampling; how calibration is measured, and the metrics; the size of the pool; and the
    versions of the jobs that measure. What an earlier version of prmcal did not save is not among them. What only
    calibrators depend on is in :func:`fit_conditions_of`.
    """
    found = {}
    for leaderboard in EVERY_LEADERBOARD:
        versions = _versions(_measuring(plan, leaderboard))
        found[leaderboard] = {**_given(record, _OF_LEADERBOARD[leaderboard]), **versions}
    for metric in plan.plugins.get("metric", ()):
        identity = {name: value for name, value in flat(metric.identity).items() if name != "kind"}
        found["calibration"] |= {f"{OF_METRICS}{metric.name} {name}": each for name, each in identity.items()}
    if SEED in record.grid:
        found = {each: {SEED: record.grid[SEED], **conditions} for each, conditions in found.items()}
    return found


def shard_conditions_of(record: RunRecord) -> dict[str, Any]:
    """Return the sizes of shards, which decide something only if the shards of two submissions do not fit together."""
    return _given(record, _OF_SHARDS)


def measured_of(plan: Plan) -> dict[Leaderboard, dict[tuple[str, str, str], str]]:
    """Return what each leaderboard measures: the keys of the jobs with its data, by LLM, data set and split."""
    return {
        leaderboard: {
            (job.labels.llm, job.labels.dataset, job.labels.split): job.key
            for job in _measuring(plan, leaderboard)
            if job.kind in _MEASURED[leaderboard]
        }
        for leaderboard in EVERY_LEADERBOARD
    }


def fit_conditions_of(record: RunRecord, plan: Plan) -> dict[str, Any]:
    """Return what decides for the calibrators of a submission: the data of their fits, and the versions of jobs."""
    found = _given(record, _OF_FITS)
    calibration = record.grid.get("calibration") or {}
    for data in plan.datasets:
        if (data.name, data.split) == (calibration.get("name"), calibration.get("split")):
            found |= {"calibration questions": data.content_hash, "calibration grader": data.grader_version}
    return found | _versions(job for job in plan.jobs if job.kind in _FITTING)


def further_conditions_of(record: RunRecord) -> dict[Leaderboard, dict[str, Any]]:
    """Return what decides for some rows of a leaderboard only: the quantile levels and the names of the metrics."""
    grid = record.grid
    levels = (grid.get("scaling") or {}).get("levels") or []
    metrics: Iterable[Mapping[str, Any]] = (grid.get("measurement") or {}).get("metrics") or []
    found: dict[Leaderboard, dict[str, Any]] = {
        each: {"levels": " ".join(map(str, sorted(levels)))} for each in EVERY_LEADERBOARD
    }
    found["calibration"]["own metrics"] = " ".join(sorted(each["name"] for each in metrics))
    return found


def _given(record: RunRecord, parts: _Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, fields in parts.items():
        given = record.grid.get(part) or {}
        found |= {title: given[name] for name, title in fields.items() if name in given}
    return found


def _measuring(plan: Plan, leaderboard: Leaderboard) -> Iterable[Job[Parameters]]:
    """Yield the jobs behind the rows of a leaderboard that measure the test questions, and do not fit calibrators."""
    waiting = [cell.job for cell in plan.cells if cell.leaderboard == leaderboard]
    seen: set[int] = set()
    while waiting:
        job = waiting.pop()
        if id(job) not in seen:
            seen.add(id(job))
            yield job
            waiting += [
                source
                for source in job.inputs
                if source.kind not in _FITTING and source.labels.split == job.labels.split
            ]


def _versions(jobs: Iterable[Job[Parameters]]) -> dict[str, int]:
    versions = {job.kind: job.shards[0].version for job in jobs if job.shards[0].version}
    return {f"{kind.replace('_', ' ')} version": versions[kind] for kind in sorted(versions)}


Key = TypeVar("Key")


def compatible(some: Mapping[Key, Any], others: Mapping[Key, Any]) -> bool:
    """Return whether two mappings agree, as far as both have a key."""
    return all(others[name] == value for name, value in some.items() if name in others)


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, whose keys are the last names: ``{"arguments": {"bins": 5}}`` has ``bins``."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        title = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= {
                key if key not in found else f"{title} {key}": each for key, each in flat(value).items()
            }
        else:
            found[title] = value
    return found
