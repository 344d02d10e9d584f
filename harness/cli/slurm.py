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
    # Slurm sends the signal to the process of the script, which is the run after `exec`.
    body = 'exec "$PYTHON" -m prmcal run ARGUMENTS\n'
    if allocation["nodes"] > 1:
        body = Path(__file__).with_name("slurm_nodes.sh").read_text(encoding="utf-8")
    lines = [
        "#!/bin/bash",
        "# Submit this script with sbatch. To continue after the time limit, submit it again: finished work is kept.",
        f"# Slurm sends SIGTERM {_SECONDS_OF_NOTICE} seconds before the limit, so that the run ends cleanly. After a "
        "preemption\n# Slurm starts the script again by itself.",
        *(f"#SBATCH --{option}={value}" for option, value in options.items() if value),
        "#SBATCH --requeue",
        "set -euo pipefail",
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"PYTHON={shlex.quote(sys.executable)}",
        "",
        body.replace("ARGUMENTS", shlex.join(arguments)),
    ]
    return "\n".join(lines)
