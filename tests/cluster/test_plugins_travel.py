"""A node that has neither a plugin file nor the modules that it imports receives both."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from prmcal.harness.cluster.executor import ActorSettings, NodeWorker, copied_plugins
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.planning.planner import build_plan
from prmcal.registry.plugins import load_plugin_file
from tests.cluster.test_cluster_run import SYNTHETIC, grid

PLUGIN = """
from pathlib import Path
from travelling_package.texts import unchanged
from prmcal import llm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms

load_plugin_file(Path("{synthetic}"))

@llm("travelling")
class Travelling(llms.get("synthetic-llm")):
    def generate(self, prefixes, n, sampling, seed):
        return unchanged(super().generate(prefixes, n, sampling, seed))
"""


def test_a_plugin_and_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "travelling_package").mkdir(parents=True)
    (here / "travelling_package" / "__init__.py").touch()
    (here / "travelling_package" / "texts.py").write_text("def unchanged(found):\n    return found\n")
    plugin = here / "plugin.py"
    plugin.write_text(PLUGIN.format(synthetic=SYNTHETIC))
    monkeypatch.syspath_prepend(str(here))
    load_plugin_file(plugin)
    plan = build_plan(grid(llms=[{"name": "weak", "plugin": "travelling", "arguments": {"skill": 0.7}}]))
    copies = copied_plugins([plugin], tmp_path / "copies")
    modules = tmp_path / "copies" / "modules"
    assert {path.name for path in modules.rglob("*.py")} == {"__init__.py", "texts.py"}
    settings = ActorSettings(
        directory=tmp_path / "out",
        working_directory=Path.cwd(),
        token="",
        plugin_files=copies,
        modules=modules,
    )
    shutil.rmtree(here)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(here)])
    before = Path.cwd()
    worker = NodeWorker(settings, 0, "node, worker 1")
    try:
        found = worker.compute(next(shard for shard in plan.shards() if shard.ref.kind == "rollout"))
    finally:
        worker.close()
        os.chdir(before)
    assert isinstance(found, ShardOutcome), found
    assert found.manifest is not None, found
