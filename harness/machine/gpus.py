"""The GPUs of this machine, and how the workers of a run share them: evenly, so that no two load models on one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from prmcal.errors import PrmcalError
from prmcal.harness.planning.grid import GridSpec, PluginSpec
from prmcal.registry.models.checkpoints import SPREAD

__all__ = [
    "check_workers",
    "default_workers",
    "describe_gpus",
    "gpu_environment",
    "gpus_of",
    "gpus_of_worker",
    "visible_gpus",
]

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_QUERY = "nvidia-smi"
_QUERY_SECONDS = 20.0
_MOST_WORKERS = 8


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; all there are where it is not set."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None:
        return tuple(str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*")))
    return tuple(name for each in chosen.split(",") if (name := each.strip()) and name != "-1")


def describe_gpus(*fields: str) -> list[str]:
    """A line on each GPU: its name, its memory, and further fields of nvidia-smi, such as memory.used."""
    if shutil.which(_QUERY) is None:
        return []
    command = [_QUERY, f"--query-gpu={','.join(['name', 'memory.total', *fields])}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return [f"nvidia-smi failed: {error}"]
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def gpus_of(spec: PluginSpec) -> int:
    """Over how many GPUs a grid spreads a model."""
    if spec.arguments.get("device") == SPREAD:
        return max(1, len(visible_gpus()))
    size = spec.arguments.get("tensor_parallel")
    # Whatever else it may be is refused later, with the plugin's name.
    return size if isinstance(size, int) and size > 0 else 1


def default_workers(grid: GridSpec) -> int:
    """One for every GPU, or for as many of them as the grid's largest model takes; else one a core, at most eight."""
    gpus = visible_gpus()
    if gpus:
        return max(1, len(gpus) // max(map(gpus_of, _models(grid))))
    return min(os.cpu_count() or 1, _MOST_WORKERS)


def check_workers(grid: GridSpec, workers: int) -> None:
    """Refuse more workers than there are GPUs for a model that is spread over several.

    Raises
    ------
    PrmcalError
        That says how many workers there can be.
    """
    there = len(visible_gpus())
    for spec in _models(grid):
        needed = gpus_of(spec)
        if there and needed > 1 and workers * needed > there:
            remedy = (
                f"Use --workers {there // needed}." if there >= needed else "Lower its 'tensor_parallel'."
            )
            raise PrmcalError(
                f"{spec.name} is spread over {needed} GPUs, so that --workers {workers} needs {workers * needed}. "
                f"This machine has {there}. {remedy}"
            )


def gpus_of_worker(gpus: Sequence[str], workers: int, place: int) -> tuple[str, ...]:
    """The share of one of `workers` workers, place 0 being the first: even ones, and one GPU each at least.

    Where there are more workers than GPUs, some share one.
    """
    if workers >= len(gpus):
        return tuple(gpus[place % len(gpus) :][:1]) if gpus else ()
    return tuple(gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers])


def gpu_environment(workers: int, place: int) -> dict[str, str]:
    """What the environment of a worker says of its share of this machine's GPUs; nothing where there are none."""
    gpus = gpus_of_worker(visible_gpus(), workers, place)
    return {_VARIABLE: ",".join(gpus)} if gpus else {}


def _models(grid: GridSpec) -> list[PluginSpec]:
    return [*grid.llms, *grid.prms]
