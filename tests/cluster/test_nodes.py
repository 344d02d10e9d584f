"""Nodes that differ: other versions, no prmcal, GPUs, a small cache. And what a running cluster tells about itself."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import ClusterError
from prmcal.harness.cli.plan import read_status
from prmcal.harness.cluster.connection import ClusterSettings
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.execution.progress import WorkerNow
from prmcal.registry.plugins import load_plugin_file
from tests.cluster.nodes import Nodes
from tests.cluster.test_cluster_run import SYNTHETIC, artifacts, during, grid, local, run, slow
from tests.conftest import PLUGINS

__all__ = ["local"]

WITHOUT_PRMCAL = """
import importlib.abc, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "prmcal":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
"""

TELLING = """
import os, time
from pathlib import Path
from prmcal import llm, prm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms, prms

load_plugin_file(Path("{synthetic}"))

@llm("telling")
class Telling(llms.get("synthetic-llm")):
    def __init__(self, tensor_parallel=1):
        super().__init__(0.7)
        self.tensor_parallel = tensor_parallel

    def generate(self, prefixes, n, sampling, seed):
        time.sleep(1)
        (Path("{folder}") / f"model-{{os.getpid()}}").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        return super().generate(prefixes, n, sampling, seed)
"""


def other_version(folder: Path) -> dict[str, str]:
    """The environment of a node with another version of prmcal."""
    package = folder / "prmcal"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "99.0"\n')
    information = folder / "prmcal-99.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: prmcal\nVersion: 99.0\n")
    return {"PYTHONPATH": str(folder)}


def without_prmcal(folder: Path) -> dict[str, str]:
    """The environment of a node whose Python does not find prmcal."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(WITHOUT_PRMCAL)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (other_version, r"has other versions: prmcal 99.0 instead of .* Install the same versions there."),
        (without_prmcal, r"has no prmcal\. Install it there: pip install prmcal=="),
    ],
)
def test_a_node_that_cannot_compute_the_same_is_refused(
    environment: Any, message: str, nodes: Nodes, tmp_path: Path
) -> None:
    node = nodes.add(env_vars=environment(tmp_path / "environment"))
    try:
        with (
            pytest.raises(ClusterError, match=message),
            RayExecutor(tmp_path / "out", grid(), [SYNTHETIC], ClusterSettings(nodes.address)),
        ):
            raise AssertionError("it was accepted")
    finally:
        nodes.kill(node)
    assert not (tmp_path / "out").exists()


def test_a_node_of_another_version_that_joins_is_not_used(nodes: Nodes, tmp_path: Path) -> None:
    added: list[Any] = []
    out = tmp_path / "out"

    def act() -> None:
        added.append(nodes.add(env_vars=other_version(tmp_path / "environment")))
        end = time.monotonic() + 600
        while "The run does not use it." not in (out / "run.log").read_text() and time.monotonic() < end:
            time.sleep(0.2)

    done = during(slow(0.5), out, nodes, act, shared=False)
    nodes.kill(*added)
    assert done.failed_cells == 0
    assert "has other versions: prmcal 99.0" in (out / "run.log").read_text()


def test_a_small_cache_changes_nothing(nodes: Nodes, local: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(slow(0.1), out, nodes, shared=False, cache_limit=50_000).failed_cells == 0
    assert artifacts(out) == artifacts(local)


def test_the_status_names_nodes_and_workers(nodes: Nodes, tmp_path: Path) -> None:
    told: list[str] = []
    out = tmp_path / "out"

    def act() -> None:
        end = time.monotonic() + 600
        while not told and time.monotonic() < end:
            told.extend(str(WorkerNow(**each)) for each in read_status(out)[0]["crew"] if each["job"])
            time.sleep(0.2)

    assert during(slow(1.0), out, nodes, act).failed_cells == 0
    assert any(line.startswith("127.0.0.") and ", worker 1: " in line and " of weak" in line for line in told)
    assert read_status(out)[0]["crew"] == []


def test_every_worker_has_whole_gpus_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "told"
    folder.mkdir()
    plugin = tmp_path / "telling.py"
    plugin.write_text(TELLING.format(synthetic=PLUGINS / "synthetic.py", folder=folder))
    load_plugin_file(plugin)
    spec = grid(
        llms=[
            {"name": f"on-{gpus}", "plugin": "telling", "arguments": {"tensor_parallel": gpus}}
            for gpus in (1, 2, 3)
        ],
        calibrators=["uncalibrated"],
    )
    nodes = Nodes(tmp_path_factory.mktemp("gpus"))
    try:
        # Ray counts these GPUs, whether they exist or not. Nothing here uses them.
        nodes.add(num_cpus=4, num_gpus=2)
        done = run(spec, tmp_path / "out", nodes, (plugin,))
    finally:
        nodes.close()
    assert {each.read_text() for each in folder.iterdir()} == {"0", "1", "0,1"}
    (failure,) = done.failures
    assert failure.failure.reason.startswith(
        "on-3 is spread over 3 GPUs, and the largest node of the cluster has 2."
    )
    assert all("on-3" in cell for cell in failure.cells)
    assert done.done_cells == 2 * done.failed_cells
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
