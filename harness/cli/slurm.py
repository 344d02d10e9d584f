"""``prmcal slurm``: a script for sbatch that runs a grid on one node or on several."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import GridArgument, OutOption, argument, option
from prmcal.harness.planning.reading import find_grid, read_grid

_SECONDS_OF_NOTICE = 120

_TIME = re.compile(r"(\d+-)?\d+(:\d\d){0,2}")
_PARTITION = re.compile(r"[\w.,+-]+")


def slurm(
    grid: GridArgument,
    run_options: Annotated[
        list[str] | None,
        argument("RUN_OPTION", "Options of `prmcal run`, after --, such as -- --only llm=weak --quiet."),
    ] = None,
    *,
    out: OutOption,
    nodes: Annotated[int, option("N", "The number of nodes. On several, Ray connects them.", min=1)] = 1,
    gpus_per_node: Annotated[int | None, option("G", "GPUs of each node.", "--gpus-per-node", min=1)] = None,
    cpus_per_task: Annotated[int | None, option("C", "Cores of each node.", "--cpus-per-task", min=1)] = None,
    time: Annotated[str, option("HH:MM:SS", "The time limit of the job, in any form that Slurm takes.")] = "",
    partition: Annotated[str, option("NAME", "The partition.")] = "",
) -> None:
    """Print a script for Slurm that runs a grid.

    Save it in a file and submit it with sbatch. Submit the same file again to continue the run after its time limit.
    """
    if time and not _TIME.fullmatch(time):
        raise PrmcalError(f"--time must be a time as Slurm writes it, such as 12:00:00. Got '{time}'.")
    if partition and not _PARTITION.fullmatch(partition):
        raise PrmcalError(f"--partition must be the name of a partition. Got '{partition}'.")
    arguments = [grid, "--out", str(out), *(run_options or [])]
    # A wrong option is an error here, and not hours later on a node.
    commands: Any = typer.main.get_command(app)
    commands.get_command(None, "run").make_context("prmcal run", list(arguments))
    allocation = {
        "job-name": f"prmcal-{read_grid(find_grid(grid)).name}",
        "partition": partition,
        "nodes": nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": cpus_per_task,
        "gpus-per-node": gpus_per_node,
        "time": time,
    }
    typer.echo(render_script(allocation, arguments), nl=False)


def render_script(allocation: Mapping[str, Any], arguments: Sequence[str]) -> str:
    """Return a script for sbatch.

    `allocation` has options of sbatch for what the script asks Slurm for. Those without a value keep the default of the
    partition. `arguments` are those of ``prmcal run``.
    """
    options = {**allocation, "signal": f"B:TERM@{_SECONDS_OF_NOTICE}", "open-mode": "append"}
    body = _ONE_NODE if allocation["nodes"] == 1 else _NODES
    lines = [
        _HEAD,
        *(f"#SBATCH --{option}={value}" for option, value in options.items() if value),
        "#SBATCH --requeue",
        "set -euo pipefail",
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"PYTHON={shlex.quote(sys.executable)}",
        "",
        body.replace("ARGUMENTS", shlex.join(arguments)),
    ]
    return "\n".join(lines)


_HEAD = f"""\
#!/bin/bash
# Submit this script with sbatch. To continue after the time limit, submit it again: finished work is kept.
# Slurm sends SIGTERM {_SECONDS_OF_NOTICE} seconds before the limit, so that the run ends cleanly. After a preemption
# Slurm starts the script again by itself."""

# Slurm sends the signal to the process of the script, which is the run after `exec`.
_ONE_NODE = """\
exec "$PYTHON" -m prmcal run ARGUMENTS
"""

_NODES = """\
# Ray's head is on the first node, where this script runs. Only this job knows the token, so nobody else can use
# its Ray.
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0 RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')
export RAY_AUTH_TOKEN
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
cpus=${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}
port=$((20000 + SLURM_JOB_ID % 10000))
ip=$("$PYTHON" - "${nodes[1]}" <<'END'
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
    link.connect((sys.argv[1], 9))  # It sends nothing, and finds the address by which the other node sees this one.
    print(link.getsockname()[0])
END
)

ray_on() {  # ray_on COUNT SRUN_OPTION RAY_OPTION...: start Ray on some nodes
  exec srun --overlap --nodes="$1" --ntasks="$1" --ntasks-per-node=1 --cpus-per-task="$cpus" "$2" \\
    "$PYTHON" -m ray.scripts.scripts start --block --num-cpus="$cpus" "${@:3}"
}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT  # This stops Ray.
ray_on 1 --nodelist="${nodes[0]}" --head --node-ip-address="$ip" --port="$port" \\
  --include-dashboard=false --temp-dir="/tmp/ray-$SLURM_JOB_ID" &
until (exec 3<>"/dev/tcp/$ip/$port") 2>/dev/null; do
  kill -0 $! || { echo "Ray did not start on ${nodes[0]}." >&2; exit 1; }
  sleep 1
done
ray_on $((${#nodes[@]} - 1)) --exclude="${nodes[0]}" --address="$ip:$port" &
"$PYTHON" - "$ip:$port" "${#nodes[@]}" <<'END'
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
count, end = int(sys.argv[2]), time.monotonic() + 300
while (joined := sum(node["Alive"] for node in ray.nodes())) < count and time.monotonic() < end:
    time.sleep(1)
print(f"{joined} of {count} nodes joined Ray.", file=sys.stderr)
END

"$PYTHON" -m prmcal run ARGUMENTS --executor ray --address "$ip:$port" &
run=$!
trap 'kill -TERM "$run" 2>/dev/null || true' TERM
code=0
wait "$run" || code=$?
while kill -0 "$run" 2>/dev/null; do  # A signal interrupts `wait`, and the run is still recording what is done.
  code=0
  wait "$run" || code=$?
done
exit "$code"
"""
