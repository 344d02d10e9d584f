"""A grid on a real cluster gives the same bytes as on one machine, also when nodes and processes are killed."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.harness.cli.results.leaderboard import render_leaderboard
from prmcal.harness.cluster.connection import ClusterSettings
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.execution.ending import RunSummary
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.grid import GridSpec
from prmcal.registry.plugins import load_plugin_file
from tests.cluster.nodes import Nodes
from tests.conftest import PLUGINS

SYNTHETIC = PLUGINS / "synthetic.py"


def grid(**changes: Any) -> GridSpec:
    load_plugin_file(SYNTHETIC)
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {"calibrators": ["uncalibrated", "isotonic"], "llms": data["llms"][:1]}
    return GridSpec.model_validate(data | changes)


def slow(pause: float) -> GridSpec:
    return grid(
        llms=[{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7, "pause": pause}}]
    )


def run(
    spec: GridSpec, out: Path, nodes: Nodes | None, plugins: tuple[Path, ...] = (SYNTHETIC,), **settings: Any
) -> RunSummary:
    if nodes is None:
        return run_grid(spec, out, 2, plugins, stream=io.StringIO())
    with RayExecutor(out, spec, plugins, ClusterSettings(nodes.address, **settings)) as executor:
        return run_grid(spec, out, executor.workers, plugins, executor, stream=io.StringIO())


def artifacts(out: Path) -> dict[str, bytes]:
    """The bytes of all files of all artifacts, apart from the times in their manifests."""
    files = [
        path for path in out.glob("artifacts/*/*/**/*") if path.is_file() and path.name != "artifact.json"
    ]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def assert_same_artifacts(found: Path, expected: Path) -> None:
    """Compare the artifacts of two runs, and name the files that differ."""
    files, others = artifacts(found), artifacts(expected)
    names = sorted(files.keys() | others.keys())
    assert [name for name in names if files.get(name) != others.get(name)] == []


def leaderboards(out: Path) -> str:
    return "".join(render_leaderboard(out, table, "csv") for table in ("calibration", "scaling"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on this machine without Ray."""
    out = tmp_path_factory.mktemp("local") / "out"
    assert run(slow(0.1), out, None).failed_cells == 0
    return out


@pytest.mark.parametrize("shared", [None, False])
def test_the_bytes_are_those_of_a_local_run(
    shared: bool | None, nodes: Nodes, local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run(slow(0.1), out, nodes, shared=shared)
    assert (done.failed_cells, done.reused) == (0, 0)
    assert_same_artifacts(out, local)
    assert leaderboards(out) == leaderboards(local)
    assert not (out / "workers").exists()
    assert run(slow(0.1), out, nodes, shared=shared).computed == 0


def during(spec: GridSpec, out: Path, nodes: Nodes, act: Callable[[], None], **settings: Any) -> RunSummary:
    """Run a grid on a cluster, and do something in the middle."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, spec, out, nodes, **settings)
        while len(list(out.glob("artifacts/*/*/artifact.json"))) < 2 and not running.done():
            time.sleep(0.1)
        act()
        return running.result()


def test_killed_nodes_cost_nothing_and_a_new_one_is_used(nodes: Nodes, local: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def act() -> None:
        for node in list(nodes.alive):
            time.sleep(random.uniform(0, 2))
            nodes.kill(node)
        nodes.add()
        nodes.add()

    done = during(slow(0.1), out, nodes, act, shared=False)
    log = (out / "run.log").read_text()
    assert done.failed_cells == 0, log
    assert log.count("has left the cluster") == 2
    assert log.count("has joined the cluster") == 2
    assert_same_artifacts(out, local)
    assert leaderboards(out) == leaderboards(local)
