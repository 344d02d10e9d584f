"""Whatever ends a process on a node, a shard is tried again, and nothing that a plugin started stays behind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from prmcal.harness.cluster.connection import ClusterSettings
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.execution.ending import RunSummary
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
            (Path(self.folder) / str(self.engine.pid)).touch()
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
            if self.fate == "hangs":
                print("I hang", flush=True)
                time.sleep(3600)
        return super().generate(prefixes, n, sampling, seed)

    def chosen(self):
        # Whoever creates a file has its number, however many processes try at once.
        for number in range(self.times):
            try:
                (Path(self.folder).parent / f"{{number}}.met").touch(exist_ok=False)
                return True
            except FileExistsError:
                continue
        return False
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the plugin, loaded."""
    path = tmp_path_factory.mktemp("plugin") / "plugin.py"
    path.write_text(PLUGIN.format(synthetic=PLUGINS / "synthetic.py"))
    load_plugin_file(path)
    return path


def run(
    folder: Path, nodes: Nodes, plugin: Path, fate: str, times: int, **shards: Any
) -> tuple[RunSummary, str]:
    (folder / "engines").mkdir()
    arguments = {"skill": 0.7, "fate": fate, "folder": str(folder / "engines"), "times": times}
    llms = [{"name": "weak", "plugin": "with-engine", "arguments": arguments}]
    sizes = {"questions": 40, "trajectories": 16}
    spec = grid(llms=llms, shards=sizes | shards, calibrators=["uncalibrated"])
    out = folder / "out"
    with RayExecutor(out, spec, [plugin], ClusterSettings(nodes.address, shared=False)) as executor:
        done = run_grid(spec, out, executor.workers, [plugin], executor, stream=io.StringIO())
    return done, (out / "run.log").read_text()


@pytest.mark.parametrize("fate", ["is killed", "kills its actor"])
def test_a_shard_whose_process_dies_is_tried_again(
    fate: str, nodes: Nodes, plugin: Path, tmp_path: Path
) -> None:
    done, log = run(tmp_path, nodes, plugin, fate, times=1)
    assert done.failed_cells == 0, log
    assert "(try 1 of 3). It is tried again." in log
    assert_all_ended(tmp_path / "engines")


@pytest.mark.parametrize("times", [2, 1000])
def test_a_model_that_breaks_is_loaded_again_and_tried_elsewhere(
    times: int, nodes: Nodes, plugin: Path, tmp_path: Path
) -> None:
    done, log = run(tmp_path, nodes, plugin, "breaks", times)
    assert "(try 1 of 3). It is tried again." in log
    assert_all_ended(tmp_path / "engines")
    if times == 2:
        assert done.failed_cells == 0, log
        return
    assert done.failed_cells == done.cells
    (group,) = done.failures
    assert group.failure.cause == "model"
    assert group.failure.reason.endswith("Its processes wrote: ValueError: no free memory")


def test_a_shard_whose_process_always_dies_fails_with_its_last_lines(
    nodes: Nodes, plugin: Path, tmp_path: Path
) -> None:
    done, _ = run(tmp_path, nodes, plugin, "is killed", times=1000)
    assert done.failed_cells == done.cells
    (group,) = done.failures
    assert "at each of 3 tries" in group.failure.reason
    assert "was killed (SIGKILL)" in group.failure.reason
    assert_all_ended(tmp_path / "engines")


def test_a_plugin_that_hangs_fails_its_cells(nodes: Nodes, plugin: Path, tmp_path: Path) -> None:
    done, log = run(tmp_path, nodes, plugin, "hangs", times=1000, time_limit=5 / 3600)
    assert done.failed_cells == done.cells
    (group,) = done.failures
    assert group.failure.cause == "time"
    assert "I hang" in log
    assert_all_ended(tmp_path / "engines")
