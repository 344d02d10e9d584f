"""The script for Slurm on several nodes, with a real Ray and stand-ins for Slurm's own programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from prmcal.harness.cli.app import ExitCode
from tests.conftest import environment
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid

SCRIPT = Path(__file__).parents[2] / "examples" / "prmcal.sbatch"
PROGRAMS = {
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "scontrol": "printf '%s\\n' localhost localhost",
}
ENDLESS = {"name": "endless", "plugin": "synthetic-llm", "arguments": {"pause": 36000.0}}


def test_it_starts_ray_and_slurms_signal_ends_the_run_cleanly(tmp_path: Path) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path, out = grid(tmp_path, llms=[{"name": "fast", "plugin": "synthetic-llm"}, ENDLESS]), tmp_path / "out"
    arguments = [str(path), "--out", str(out), "--plugin", str(SYNTHETIC), "--limit", "5"]
    known = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "localhost,localhost",
        "SLURM_JOB_NUM_NODES": "2",
        "PYTHON": sys.executable,
        "SLURM_CPUS_ON_NODE": "1",
    }
    job = subprocess.Popen(["bash", SCRIPT, *arguments], env=environment() | known, stderr=subprocess.PIPE, text=True)
    log, end = out / "run.log", time.monotonic() + 600
    while not (log.exists() and "strategy of fast" in log.read_text()):
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.1)
    job.send_signal(signal.SIGTERM)
    told = job.communicate(timeout=600)[1]
    assert job.returncode == ExitCode.TERMINATED
    assert "2 of 2 nodes joined Ray." in told
    assert "on 2 nodes of a cluster." in " ".join(told.split())
    assert "The run was ended by SIGTERM. Finished work is kept." in told
