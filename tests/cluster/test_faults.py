"""Whatever ends a process on a node, a shard is tried again, and nothing that a plugin started stays behind.

One run has an LLM for each fate, since most of the time of a small run is the start of its workers.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.run import run_grid
from prmcal.registry.plugins import load_plugin_file
from tests.cluster.nodes import Nodes
from tests.cluster.test_cluster_run import grid
from tests.conftest import PLUGINS
from tests.harness.executors.test_processes import assert_all_ended

PLUGIN = '''
import os, signal, subprocess, sys, time
from pathlib import Path
from prmcal import llm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms

load_plugin_file(Path("{synthetic}"))

@llm("with-engine")
class WithEngine(llms.get("synthetic-llm")):
    """Starts a process that outlives its parent, as engines do; then meets its fate, the first times or always."""

    def __init__(self, skill: float, fate: str, folder: str, times: int) -> None:
        super().__init__(skill)
        self.fate, self.folder, self.times = fate, folder, times

    def generate(self, prefixes, n, sampling, seed):
        if not hasattr(self, "engine"):
            self.engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            (Path(self.folder).parent / "engines" / str(self.engine.pid)).touch()
        if self.chosen():
            if self.fate == "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fate == "breaks":
                print("ValueError: no free memory", flush=True)
                raise RuntimeError("The engine died.")
            if self.fate == "kills its actor":
                print("I kill my actor", flush=True)
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(3600)
        return super().generate(prefixes, n, sampling, seed)

    def chosen(self):
        # Whoever creates a file has its number, however many processes try at once.
        for number in range(self.times):
            try:
                (Path(self.folder) / f"{{number}}.met").touch(exist_ok=False)
                return True
            except FileExistsError:
                continue
        return False
'''


FATES = {
    "killed": ("is killed", 1),
    "gone": ("kills its actor", 1),
    "better": ("breaks", 2),
    "broken": ("breaks", 1000),
    "dying": ("is killed", 1000),
}
"""The fate of each LLM, and how many times it is met."""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the plugin, loaded."""
    path = tmp_path_factory.mktemp("plugin") / "plugin.py"
    path.write_text(PLUGIN.format(synthetic=PLUGINS / "synthetic.py"))
    load_plugin_file(path)
    return path


def run(
    folder: Path, nodes: Nodes, plugin: Path, fates: Mapping[str, tuple[str, int]], **shards: Any
) -> tuple[dict[str, Failure], str]:
    """Run a grid with an LLM for each fate. Return the failures by their LLMs, and the log."""
    (folder / "engines").mkdir()
    llms = []
    for name, (fate, times) in fates.items():
        (folder / name).mkdir()
        arguments = {"skill": 0.7, "fate": fate, "folder": str(folder / name), "times": times}
        llms.append({"name": name, "plugin": "with-engine", "arguments": arguments})
    sizes = {"questions": 40, "trajectories": 16}
    spec = grid(llms=llms, shards=sizes | shards, calibrators=["uncalibrated"])
    out = folder / "out"
    with RayExecutor(out, [plugin], ClusterSettings(nodes.address)) as executor:
        done = run_grid(spec, out, executor.workers, [plugin], executor, stream=io.StringIO())
    assert_all_ended(folder / "engines")
    found = {
        name: group.failure for name in fates for group in done.failures if any(name in cell for cell in group.cells)
    }
    assert done.failed_cells == len(found) * done.cells // len(fates)  # All cells of an LLM fail, or none.
    return found, (out / "run.log").read_text()


def test_a_shard_whose_process_dies_or_whose_model_breaks_is_tried_again(
    nodes: Nodes, plugin: Path, tmp_path: Path
) -> None:
    failures, log = run(tmp_path, nodes, plugin, FATES)
    assert set(failures) == {"broken", "dying"}, log
    met = {name: len(list((tmp_path / name).glob("*.met"))) for name in FATES}
    assert (met["killed"], met["gone"], met["better"]) == (1, 1, 2)
    assert log.count("(try 1 of 3). It is tried again.") >= len(FATES)
    assert failures["broken"].cause == "model"
    assert failures["broken"].reason.endswith("Its processes wrote: ValueError: no free memory")
    assert "was killed (SIGKILL)" in failures["dying"].reason
