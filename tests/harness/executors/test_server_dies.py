"""A run whose LLM is behind a server that is killed: finished work is kept, and it goes on with another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import PLUGINS, ROOT, Prmcal, environment
from tests.harness.executors.synthetic_server import PARTING

SYNTHETIC = PLUGINS / "synthetic.py"


@contextmanager
def server(port: int, dies_after: int = 0) -> Iterator[None]:
    """In a process of its own, which kills itself at the request after so many."""
    command = [sys.executable, "-m", "tests.harness.executors.synthetic_server", str(port), str(dies_after)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


def grid(folder: Path, port: int) -> Path:
    arguments = {
        "base_url": f"http://127.0.0.1:{port}/v1",
        "model": "synthetic",
        "chat_template": "{{ messages[-1]['content'] }}" + PARTING,
        "patience": 0.5,
    }
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "llms": [{"name": "served", "plugin": "openai", "arguments": arguments}],
        "calibrators": ["uncalibrated", "isotonic"],
        "calibration": {"name": "synthetic-questions", "questions": 5, "trajectories": 1, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 5}],
        "measurement": {"measured": 1, "follow_ups": 2, "replicates": 100},
        "scaling": {"samples": 2, "targets": [0.9], "levels": [0.1]},
        "shards": {"questions": 2, "trajectories": 2},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_run_goes_on_after_its_server_was_killed(prmcal: Prmcal, tmp_path: Path, port: int) -> None:
    path = grid(tmp_path, port)

    def run(out: str) -> subprocess.CompletedProcess[str]:
        return prmcal("run", path, "--out", tmp_path / out, "--workers", 1, "--plugin", SYNTHETIC)

    with server(port, dies_after=25):
        interrupted = run("interrupted")
    assert interrupted.returncode == ExitCode.FAILED_CELLS
    said = " ".join(interrupted.stderr.split())
    assert "The llm 'served' failed to generate: the server http" in said
    assert "gave no answer in" in said
    assert "Check the server, then run the same command again. It tries again only what failed" in said
    assert said.count("prmcal: error:") <= 3
    log = (tmp_path / "interrupted" / "run.log").read_text()
    assert log.count("Likely cause:") >= 1
    kept = {file.parent.name for file in (tmp_path / "interrupted" / "artifacts").glob("*/*/artifact.json")}
    assert kept

    with server(port):
        resumed, whole = run("interrupted"), run("whole")
    assert resumed.returncode == whole.returncode == 0, resumed.stderr
    assert f" {len(kept)} reused, 0 cells failed" in " ".join(resumed.stderr.split())
    assert " 0 reused" in whole.stderr
    tables = [render_leaderboard(tmp_path / out, "calibration", "csv") for out in ("interrupted", "whole")]
    assert tables[0] == tables[1] != ""
