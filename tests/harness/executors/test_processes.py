"""What a plugin starts, such as an engine that holds a GPU, ends with its worker, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.harness.cli.app import ExitCode
from tests.conftest import PLUGINS, Prmcal, command, environment
from tests.harness.execution.synthetic_grid import runs

PLUGIN = '''
import os, signal, subprocess, sys
from pathlib import Path
from prmcal import llm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms

load_plugin_file(Path("{synthetic}"))

@llm("with-engine")
class WithEngine(llms.get("synthetic-llm")):
    """Starts a process that outlives its parent, as engines do; then goes on, waits, or is killed."""

    def __init__(self, skill: float, fate: str) -> None:
        super().__init__(skill)
        self.fate = fate

    def generate(self, prefixes, n, sampling, seed):
        if not hasattr(self, "engine"):
            self.engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            (Path("{folder}") / str(self.engine.pid)).touch()
        if self.fate == "waits":
            self.engine.wait()
        if self.fate == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().generate(prefixes, n, sampling, seed)
'''


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    """A folder in which every engine is a file with its process's number for a name."""
    folder = tmp_path / "engines"
    folder.mkdir()
    (tmp_path / "plugin.py").write_text(PLUGIN.format(synthetic=PLUGINS / "synthetic.py", folder=folder))
    return folder


def arguments(folder: Path, fate: str) -> list[Any]:
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data["llms"] = [{"name": "weak", "plugin": "with-engine", "arguments": {"skill": 0.7, "fate": fate}}]
    few = {"name": "synthetic-questions", "questions": 8}
    data |= {"calibrators": ["uncalibrated"], "datasets": [few], "strategies": ["pass@1"], "scaling": {"samples": 4}}
    data["calibration"] = few | {"trajectories": 2, "follow_ups": 2}
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    return ["run", path, "--out", folder / "out", "--workers", 2, "--plugin", folder / "plugin.py"]


def assert_all_ended(engines: Path) -> None:
    started = [int(path.name) for path in engines.iterdir()]
    assert started
    end = time.monotonic() + 600
    while left := [number for number in started if runs(number)]:
        assert time.monotonic() < end, f"processes {left} outlive their workers"
        time.sleep(0.1)


@pytest.mark.parametrize(("fate", "code"), [("goes on", 0), ("is killed", ExitCode.FAILED_CELLS)])
def test_after_a_run_and_after_a_worker_that_died(
    fate: str, code: int, engines: Path, tmp_path: Path, prmcal: Prmcal
) -> None:
    done = prmcal(*arguments(tmp_path, fate))
    assert done.returncode == code, done.stderr
    assert_all_ended(engines)


def test_after_a_killed_run(engines: Path, tmp_path: Path) -> None:
    run = subprocess.Popen(command(*arguments(tmp_path, "waits")), env=environment(), stderr=subprocess.PIPE)
    end = time.monotonic() + 600
    while not any(engines.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.1)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert_all_ended(engines)
