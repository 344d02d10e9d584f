"""The conditions under which a submission was measured. Only rows with equal conditions are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import RunRecord

__all__ = ["OF_METRICS", "SEED", "compatible", "conditions_of", "flat", "further_conditions_of"]

SEED = "seed"
"""The condition in which replicates differ."""
OF_METRICS = "metric "
"""What the names of conditions begin with that belong to single metrics."""

# The parts of the grid that decide for all of its rows, and how their fields are called in the names of variants.
_FIELDS: dict[str, dict[str, str]] = {
    "sampling": {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max tokens",
        "stop": "stop",
    },
    "calibration": {
        "trajectories": "calibration trajectories",
        "follow_ups": "calibration follow-ups",
        "most_prefixes": "calibration prefixes",
        "terminal": "calibration terminal",
    },
    "measurement": {
        "measured": "measured",
        "follow_ups": "follow-ups",
        "most_prefixes": "prefixes",
        "terminal": "terminal",
        "bins": "bins",
        "replicates": "replicates",
    },
    "scaling": {"samples": "samples"},
    "shards": {"questions": "questions per shard", "trajectories": "trajectories per shard"},
}


def conditions_of(record: RunRecord, plan: Plan) -> dict[str, Any]:
    """Return what decides for all rows of a submission, by names in words.

    They are the seed, the sampling, the data that calibrators are fitted to, how calibration is measured, the size of
    the pool and of shards, and the versions of jobs and metrics. What an earlier version of prmcal did not save is not
    among them.
    """
    grid = record.grid
    found: dict[str, Any] = {SEED: grid["seed"]} if "seed" in grid else {}
    for part, fields in _FIELDS.items():
        given = grid.get(part) or {}
        found |= {title: given[name] for name, title in fields.items() if name in given}
    calibration = grid.get("calibration") or {}
    for data in plan.datasets:
        if (data.name, data.split) == (calibration.get("name"), calibration.get("split")):
            found |= {"calibration questions": data.content_hash, "calibration grader": data.grader_version}
    versions = {shard.parameters.kind: shard.version for shard in plan.shards() if shard.version}
    found |= {f"{kind.replace('_', ' ')} version": versions[kind] for kind in sorted(versions)}
    for metric in plan.plugins.get("metric", ()):
        identity = {name: value for name, value in flat(metric.identity).items() if name != "kind"}
        found |= {f"{OF_METRICS}{metric.name} {name}": value for name, value in identity.items()}
    return found


def further_conditions_of(record: RunRecord) -> dict[str, Any]:
    """Return what decides for some rows of a submission only: the quantile levels and the names of the metrics."""
    grid = record.grid
    levels = (grid.get("scaling") or {}).get("levels") or []
    metrics: Iterable[Mapping[str, Any]] = (grid.get("measurement") or {}).get("metrics") or []
    return {
        "levels": " ".join(map(str, sorted(levels))),
        "own metrics": " ".join(sorted(each["name"] for each in metrics)),
    }


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
