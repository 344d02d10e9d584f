"""A grid on a real cluster gives the same bytes as on one machine, whichever nodes join and are killed meanwhile."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import prmcal
from prmcal.errors import ClusterError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.ending import RunSummary
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.grid import GridSpec
from prmcal.registry.plugins import load_plugin_file
from tests.cluster.nodes import Nodes
from tests.conftest import PLUGINS

SYNTHETIC = PLUGINS / "synthetic.py"

GATED = """
import time
from pathlib import Path
from prmcal import llm
from prmcal.harness.cluster import nodes
from prmcal.registry.plugins import llms, load_plugin_file

load_plugin_file(Path("{synthetic}"))
nodes._SECONDS_WITHOUT_HEAD = 5.0  # No network here is down for a while.

@llm("gated")
class Gated(llms.get("synthetic-llm")):
    def generate(self, prefixes, n, sampling, seed):
        while any(each.steps for each in prefixes) and Path("{closed}").exists():
            time.sleep(0.05)
        return super().generate(prefixes, n, sampling, seed)
"""
"""The follow-ups of this LLM wait as long as there is a file, so that a test can act in the middle of a run."""

WITHOUT_PRMCAL = """
import importlib.abc, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "prmcal":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
"""

BLIND = """
import pathlib

read_text = pathlib.Path.read_text

def read(path, *given, **named):
    if path.name == "token":
        raise FileNotFoundError(path)
    return read_text(path, *given, **named)

pathlib.Path.read_text = read
"""


def grid(**changes: Any) -> GridSpec:
    load_plugin_file(SYNTHETIC)
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "calibrators": ["uncalibrated", "isotonic"],
        "llms": data["llms"][:1],
        "datasets": data["datasets"][:1],
    }
    return GridSpec.model_validate(data | changes)


def run(spec: GridSpec, out: Path, nodes: Nodes | None, plugins: tuple[Path, ...] = (SYNTHETIC,)) -> RunSummary:
    if nodes is None:
        return run_grid(spec, out, 2, plugins, stream=io.StringIO())
    with RayExecutor(out, plugins, ClusterSettings(nodes.address)) as executor:
        return run_grid(spec, out, executor.workers, plugins, executor, stream=io.StringIO())


def artifacts(out: Path) -> dict[str, bytes]:
    """The bytes of all files of all artifacts, apart from the times in their manifests."""
    files = [path for path in out.glob("artifacts/*/*/**/*") if path.is_file() and path.name != "artifact.json"]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def assert_same(found: Path, expected: Path) -> None:
    """Compare artifacts and tables of two runs, and name the files that differ."""
    files, others = artifacts(found), artifacts(expected)
    names = sorted(files.keys() | others.keys())
    assert [name for name in names if files.get(name) != others.get(name)] == []
    assert leaderboards(found) == leaderboards(expected)


def leaderboards(out: Path) -> str:
    return "".join(render_leaderboard(out, table, "csv") for table in ("calibration", "scaling"))


class Gate:
    """A grid whose follow-ups can be held back."""

    def __init__(self, folder: Path) -> None:
        self.plugin, self._closed = folder / "gated.py", folder / "closed"
        self.plugin.write_text(GATED.format(synthetic=SYNTHETIC, closed=self._closed))
        load_plugin_file(self.plugin)
        llm = {"name": "weak", "plugin": "gated", "arguments": {"skill": 0.7}}
        self.grid = grid(llms=[llm], shards={"questions": 10, "trajectories": 8})

    def run(self, out: Path, nodes: Nodes | None) -> RunSummary:
        return run(self.grid, out, nodes, (self.plugin,))

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Hold back the follow-ups while the block runs."""
        self._closed.touch()
        try:
            yield
        finally:
            self._closed.unlink()

    def during(self, out: Path, nodes: Nodes, act: Callable[[], None]) -> RunSummary:
        """Run the grid on a cluster, and do something in the middle."""
        with ThreadPoolExecutor(1) as pool:
            with self.closed():
                running = pool.submit(self.run, out, nodes)
                while len(list(out.glob("artifacts/*/*/artifact.json"))) < 2 and not running.done():
                    time.sleep(0.1)
                act()
            return running.result()


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """The gate of all tests of this file."""
    return Gate(tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def local(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on this machine without Ray."""
    out = tmp_path_factory.mktemp("local") / "out"
    assert gate.run(out, None).failed_cells == 0
    return out


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


def blind(folder: Path) -> dict[str, str]:
    """The environment of a node that does not see the folder of the run."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(BLIND)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def wait_until(found: Callable[[], object]) -> None:
    end = time.monotonic() + 600
    while not found() and time.monotonic() < end:
        time.sleep(0.2)


def test_a_run_has_the_bytes_of_a_local_one_and_uses_no_node_that_differs(
    gate: Gate, nodes: Nodes, local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    log = out / "run.log"

    def act() -> None:
        nodes.add(env_vars=other_version(tmp_path / "other"))
        nodes.add(env_vars=without_prmcal(tmp_path / "without"))
        nodes.add(env_vars=blind(tmp_path / "blind"))
        wait_until(lambda: log.read_text().count("The run does not use it.") == 3)

    done = gate.during(out, nodes, act)
    assert (done.failed_cells, done.reused) == (0, 0), log.read_text()
    assert_same(out, local)
    assert not (out / "workers").exists()

    text = " ".join(log.read_text().split())
    absent = f"cannot be used: it has no prmcal {prmcal.__version__}. Install the same versions there."
    assert text.count(absent) == 2
    assert f"does not see {out}. A cluster needs a folder that all nodes see" in text
    with pytest.raises(ClusterError, match="1 more nodes cannot be used either"):
        gate.run(tmp_path / "second", nodes)
    assert not (tmp_path / "second").exists()


def test_killed_nodes_cost_nothing_and_new_ones_are_used(gate: Gate, nodes: Nodes, local: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    log = out / "run.log"

    def act() -> None:
        for node in list(nodes.alive):
            nodes.kill(node)
        nodes.add()
        nodes.add()
        # On a busy machine Ray may need a while to see that a node is gone, and the run must not be over before.
        wait_until(lambda: all(log.read_text().count(f"has {verb} the cluster") == 2 for verb in ("left", "joined")))

    done = gate.during(out, nodes, act)
    assert done.failed_cells == 0, log.read_text()
    assert log.read_text().count("has left the cluster") == 2
    assert log.read_text().count("has joined the cluster") == 2
    assert_same(out, local)


def test_a_run_without_its_head_ends_with_one_line_and_can_be_continued(
    gate: Gate, local: Path, tmp_path: Path
) -> None:
    path, out, own = tmp_path / "grid.yaml", tmp_path / "out", Nodes()
    own.add()
    path.write_text(yaml.safe_dump(gate.grid.model_dump(mode="json", exclude_defaults=True)))
    command = f"{sys.executable} -m prmcal run {path} --out {out} --plugin {gate.plugin} --executor ray --address"
    with gate.closed(), subprocess.Popen([*command.split(), own.address], stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(list(out.glob("artifacts/*/*/artifact.json"))) > 1)
        own.kill_head()
        _, said = process.communicate(timeout=600)
    own.close()
    assert process.returncode == ExitCode.BAD_INPUT
    assert re.search(r"prmcal: error: The head node at .* is gone \(.*\)\. Start the cluster again.*\n$", said), said
    assert gate.run(out, None).reused > 1
    assert_same(out, local)
