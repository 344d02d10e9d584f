"""The machine: its GPUs and how the workers of a run share them, its hardware, and the versions of its packages.

A worker holds the GPUs that the models of its shards need; see :mod:`prmcal.harness.execution.placement`.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from prmcal import __version__

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_QUERY = "nvidia-smi"
_QUERY_SECONDS = 20.0
_MOST_WORKERS = 8


def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs in CUDA_VISIBLE_DEVICES, or the numbers of all GPUs if it is not set."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None:
        return tuple(str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*")))
    return tuple(name for each in chosen.split(",") if (name := each.strip()) and name != "-1")


def describe_gpus(*fields: str) -> list[str]:
    """Describe each GPU in a line: its name, its memory, and further fields of nvidia-smi, such as memory.used."""
    if shutil.which(_QUERY) is None:
        return []
    command = [_QUERY, f"--query-gpu={','.join(['name', 'memory.total', *fields])}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return [f"nvidia-smi failed: {error}"]
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def default_workers() -> int:
    """Return the default number of worker processes.

    There is one for each GPU. Without GPUs, there is one for each core that this process may use, at most eight.
    """
    # A scheduler gives a job some of the cores.
    return len(visible_gpus()) or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def gpus_of_worker(gpus: Sequence[str], workers: int, place: int) -> tuple[str, ...]:
    """Return the GPUs of one worker. The numbers of GPUs of two workers differ by one at most.

    `gpus` are the names of all GPUs, and `place` is that of the worker, in [0, workers). If there are more workers than
    GPUs, some workers share a GPU.
    """
    if workers >= len(gpus):
        return tuple(gpus[place % len(gpus) :][:1]) if gpus else ()
    return tuple(gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers])


def gpu_environment(gpus: Sequence[str]) -> dict[str, str]:
    """Return the environment variable that restricts a process to some GPUs; empty without GPUs."""
    return {_VARIABLE: ",".join(gpus)} if gpus else {}


_PACKAGES = (
    "duckdb",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "sqlalchemy",
    "torch",
    "transformers",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that determine results, by name."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def hardware() -> dict[str, Any]:
    """Return the processor type, the operating system, the number of cores and the memory in GiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
    }


def run_environment() -> dict[str, Any]:
    """Return what is recorded with a run, by the names of the columns: prmcal_version, packages and hardware."""
    return {
        "prmcal_version": __version__,
        "packages": package_versions(),
        "hardware": {**hardware(), "gpus": describe_gpus()},
    }
