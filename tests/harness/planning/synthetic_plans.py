"""Plans of the grid of the synthetic world, with changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.plugins import load_plugin_file

PLUGINS = Path(__file__).parents[2] / "plugins"
load_plugin_file(PLUGINS / "synthetic.py")


def data(**changes: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    return {**loaded, **changes}


def plan(**changes: Any) -> Plan:
    return build_plan(GridSpec.model_validate(data(**changes)))


def refs(planned: Plan, *kinds: str) -> set[ArtifactRef]:
    return {shard.ref for shard in planned.shards() if not kinds or shard.ref.kind in kinds}
