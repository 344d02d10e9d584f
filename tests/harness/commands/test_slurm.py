"""The script for Slurm: bash can read it, and it runs, ends and passes on what it is given."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from prmcal.harness.cli.app import ExitCode
from tests.conftest import Prmcal, environment
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


def options(script: str) -> set[str]:
    return {line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")}


def test_one_node_runs_the_grid_and_slurms_signal_ends_it(tmp_path: Path, prmcal: Prmcal) -> None:
    folder = tmp_path / "my grids"
    folder.mkdir()
    path, out = grid(folder, llms=[FAST, ENDLESS]), folder / "the run"
    made = prmcal("slurm", path, "--out", out, "--", "--plugin", SYNTHETIC, "--workers", 1, "--quiet")
    assert made.returncode == 0, made.stderr
    assert options(made.stdout) == {
        "--job-name=prmcal-synthetic", "--nodes=1", "--ntasks-per-node=1", "--signal=B:TERM@120",
        "--open-mode=append", "--requeue",
    }  # fmt: skip
    script = tmp_path / "run.sbatch"
    script.write_text(made.stdout)
    job = subprocess.Popen(
        ["bash", script], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    log, end = out / "run.log", time.monotonic() + 600
    while not (log.exists() and "rollout of fast" in log.read_text()):
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    errors = job.communicate(timeout=600)[1]
    assert job.returncode == ExitCode.TERMINATED
    assert errors.splitlines()[-1].startswith("The run was ended by SIGTERM. Finished work is kept.")


def test_several_nodes_start_ray_run_the_grid_and_stop_ray(tmp_path: Path, prmcal: Prmcal) -> None:
    asked = ["--nodes", 3, "--gpus-per-node", 4, "--cpus-per-task", 8, "--time", "1-12:00:00"]
    name = "strategy=best-of-n + IAS"
    made = prmcal("slurm", "nano", "--out", "it's mine", *asked, "--partition", "gpu", "--", "--only", name)
    assert made.returncode == 0, made.stderr
    assert options(made.stdout) >= {
        "--nodes=3", "--gpus-per-node=4", "--cpus-per-task=8", "--time=1-12:00:00", "--partition=gpu", "--requeue",
    }  # fmt: skip
    log, programs = tmp_path / "log", tmp_path / "programs"
    programs.mkdir()
    (real,) = (
        line.removeprefix("PYTHON=") for line in made.stdout.splitlines() if line.startswith("PYTHON=")
    )
    for program, text in {"srun": SRUN, "scontrol": SCONTROL, "python": PYTHON}.items():
        (programs / program).write_text(text.format(log=log, python=real) if program != "scontrol" else text)
        (programs / program).chmod(0o755)
    script = tmp_path / "run.sbatch"
    script.write_text(made.stdout.replace(f"PYTHON={real}", f"PYTHON={programs / 'python'}"))
    known = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "alpha,beta,gamma",
        "SLURM_CPUS_PER_TASK": "8",
    }
    job = subprocess.Popen(["bash", script], env=environment() | known, start_new_session=True)
    end = time.monotonic() + 600
    while not (log.exists() and "ready\n" in log.read_text()):
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
    assert run.endswith(f"--executor ray --address 127.0.0.1:{port}")
    (written,) = (line for line in made.stdout.splitlines() if "-m prmcal run" in line)
    assert shlex.split(written)[3:9] == ["run", "nano", "--out", "it's mine", "--only", name]
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--", "--onli", "llm=weak"], "No such option: --onli"),
        (["--time", "1 h"], "--time must be a time as Slurm writes it, such as 12:00:00. Got '1 h'."),
        (["--partition", "a b"], "--partition must be the name of a partition. Got 'a b'."),
    ],
)
def test_wrong_options_are_refused_before_they_reach_a_node(
    wrong: list[str], message: str, prmcal: Prmcal
) -> None:
    refused = prmcal("slurm", "nano", "--out", "out", *wrong)
    assert (refused.returncode, refused.stdout) == (ExitCode.BAD_INPUT, "")
    assert message in refused.stderr
