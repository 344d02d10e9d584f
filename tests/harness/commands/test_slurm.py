"""The script for Slurm: bash can read it, and it runs, ends and passes on what it is given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from prmcal.harness.cli.app import ExitCode
from tests.conftest import environment
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid

FAST = {"name": "fast", "plugin": "synthetic-llm"}
ENDLESS = {"name": "endless", "plugin": "synthetic-llm", "arguments": {"pause": 36000.0}}

# Stands in for Python on a cluster: Ray's head listens, the run waits for SIGTERM.
PYTHON = r"""#!/bin/bash
echo "$*" >> {log}
case "$*" in
  "-m prmcal run"*)
    trap 'echo noticed >> {log}; exit 143' TERM
    echo ready >> {log}
    for _ in {{1..6000}}; do sleep 0.1; done ;;
  *"--head"*) port=$(grep -o -- '--port=[0-9]*' <<<"$*") && exec {python} -c "
import socket, time
kept = socket.create_server(('127.0.0.1', ${{port#*=}})); time.sleep(600)" ;;
  *"start --block"*) exec sleep 600 ;;
  *) cat > {log}.script; echo 127.0.0.1 ;;
esac
"""
SRUN = r"""#!/bin/bash
echo "srun $*" >> {log}
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/bin/bash
printf '%s\\n' alpha beta gamma
"""


SCRIPT = Path(__file__).parents[3] / "examples" / "prmcal.sbatch"


def test_one_node_runs_the_grid_and_slurms_signal_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "my grids"
    folder.mkdir()
    path, out = grid(folder, llms=[FAST, ENDLESS]), folder / "the run"
    options = ["--out", str(out), "--plugin", str(SYNTHETIC), "--workers", "1", "--quiet"]
    known = environment() | {"PYTHON": sys.executable}
    job = subprocess.Popen(["bash", SCRIPT, path, *options], cwd=tmp_path, env=known, stderr=subprocess.PIPE, text=True)
    log, end = out / "run.log", time.monotonic() + 600
    while not (log.exists() and "rollout of fast" in log.read_text()):
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    errors = job.communicate(timeout=600)[1]
    assert job.returncode == ExitCode.TERMINATED
    assert errors.splitlines()[-1].startswith("The run was ended by SIGTERM. Finished work is kept.")


def test_several_nodes_start_ray_run_the_grid_and_stop_ray(tmp_path: Path) -> None:
    log, programs = tmp_path / "log", tmp_path / "programs"
    programs.mkdir()
    for program, text in {"srun": SRUN, "scontrol": SCONTROL, "python": PYTHON}.items():
        filled = text.format(log=log, python=sys.executable) if program != "scontrol" else text
        (programs / program).write_text(filled)
        (programs / program).chmod(0o755)
    arguments = ["nano", "--out", "it's mine", "--only", "strategy=best-of-n + IAS"]
    known = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "alpha,beta,gamma",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "8",
    }
    job = subprocess.Popen(["bash", SCRIPT, *arguments], env=environment() | known, start_new_session=True)
    end = time.monotonic() + 600
    while not (log.exists() and "ready\n" in (text := log.read_text()) and text.count("srun --") == 2):
        assert job.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    assert job.wait(600) == ExitCode.TERMINATED

    lines = log.read_text().splitlines()
    assert lines[-1] == "noticed"
    head, others = (line for line in lines if line.startswith("srun "))
    port = 20000 + os.getpid() % 10000
    assert "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --nodelist=alpha" in head
    assert f"--num-cpus=8 --head --node-ip-address=127.0.0.1 --port={port}" in head
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8 --exclude=alpha" in others
    assert others.endswith(f"--num-cpus=8 --address=127.0.0.1:{port}")
    (run,) = (line for line in lines if line.startswith("-m prmcal run"))
    asked = " ".join(arguments)
    assert run == f"-m prmcal run {asked} --executor ray --address 127.0.0.1:{port}"
    while runs_in(job.pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def runs_in(session: int) -> bool:
    """Whether a process of a session has not ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, number = path.read_text().rpartition(")")[2].split()[:4]
            if int(number) == session and state != "Z":
                return True
    return False
