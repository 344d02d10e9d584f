"""The plan that a run saves in its folder: the same plan, without plugins and data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.errors import RunError
from prmcal.grids import shipped_grids
from prmcal.harness.jobs.job import job_key, shard_key
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import find_grid, read_grid
from prmcal.harness.planning.saved import read_plan, write_plan
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS

load_plugin_file(PLUGINS / "synthetic.py")
SEARCHES = ["pass@1", "best-of-n + IAS", "beam search", "beam search + IAS-of-K"]


def saved(folder: Path, grid: GridSpec, stand_ins: bool = False) -> tuple[Plan, Plan]:
    """A plan, and what is read after it was saved."""
    plan, data = build_plan(grid, stand_ins), grid.model_dump(mode="json")
    write_plan(folder, data, plan)
    return dataclasses.replace(plan, absent=()), read_plan(folder, data)


def synthetic(**changes: Any) -> GridSpec:
    return GridSpec.model_validate(yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"strategies": SEARCHES, "scaling": {"samples": 24, "targets": [0.9], "levels": [0.1]}},
        {"shards": {"questions": 7, "trajectories": 3}},
        {"calibration": {"name": "synthetic-questions", "trajectories": 5, "follow_ups": 9}},
    ],
)
def test_what_is_read_is_the_plan(tmp_path: Path, changes: dict[str, Any]) -> None:
    plan, again = saved(tmp_path, synthetic(**changes))
    assert again == plan


@pytest.mark.parametrize("name", [name for name in shipped_grids() if name not in ("recorded", "smollm")])
def test_what_is_read_is_the_plan_of_a_shipped_grid(tmp_path: Path, name: str) -> None:
    plan, again = saved(tmp_path, read_grid(find_grid(name)).limited(4), stand_ins=True)
    assert again == plan


def test_shards_that_read_the_same_artifacts_share_them(tmp_path: Path) -> None:
    _, again = saved(tmp_path, synthetic())
    read = [refs for shard in again.shards() for refs in shard.inputs.values() if len(refs) > 1]
    assert len({id(refs) for refs in read}) == len(set(read)) < len(read)


def test_a_plan_of_another_grid_is_not_read(tmp_path: Path) -> None:
    grid = synthetic()
    with pytest.raises(RunError, match=r"plan\.json is missing\. Run the grid again"):
        read_plan(tmp_path, grid.model_dump(mode="json"))
    saved(tmp_path, grid)
    with pytest.raises(RunError, match="it is the plan of another grid"):
        read_plan(tmp_path, synthetic(seed=7).model_dump(mode="json"))


@pytest.mark.parametrize("damage", ["", "[]", '{"grid": 1', "\x00", "cut", "a key less"])
def test_a_damaged_plan_is_one_clear_error(tmp_path: Path, damage: str) -> None:
    grid = synthetic()
    saved(tmp_path, grid)
    path = tmp_path / "plan.json"
    content = json.loads(path.read_text())
    if damage == "a key less":
        del content["jobs"][3]["shards"]
        damage = json.dumps(content)
    path.write_text(path.read_text()[:1000] if damage == "cut" else damage)
    with pytest.raises(RunError, match=r"plan\.json is damaged .*Run the grid again: finished work is kept"):
        read_plan(tmp_path, grid.model_dump(mode="json"))


@pytest.mark.parametrize("changes", [{}, {"strategies": SEARCHES}])
def test_the_keys_follow_from_what_is_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    _, again = saved(tmp_path, synthetic(**changes))
    for shard in again.shards():
        assert shard.ref.key == shard_key(shard.ref.kind, shard.version, shard.identity, shard.inputs)
    for job in again.jobs:
        assert job.key == job_key(job.refs)
