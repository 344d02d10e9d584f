"""What a benchmark returns, and how the seconds of work are measured."""

from __future__ import annotations

import math
import os
import platform
import resource
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Figure:
    """What one benchmark has measured."""

    what: str
    """The work, with its size."""
    seconds: float
    """The CPU seconds that prmcal takes for it."""
    peer: str = ""
    """The other way to do the same, with the version of its package; empty if there is none."""
    peer_seconds: float = math.nan
    """The CPU seconds of the other way; NaN if there is none."""
    remark: str = ""
    """What else a reader wants to know, such as the largest difference of the results."""


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of the processes that it has started and that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(work: Callable[[], Value], repeats: int = 1) -> tuple[float, Value]:
    """Return the least CPU seconds of some repeats of some work, and its value."""
    times = []
    for _ in range(repeats):
        begun = cpu_seconds()
        value = work()
        times.append(cpu_seconds() - begun)
    return min(times), value


def version(package: str) -> str:
    """Return a package with its version."""
    return f"{package} {metadata.version(package)}"


def machine() -> str:
    """Return the kind of this machine: the processor, its cores, and the interpreter."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text(encoding="utf-8").splitlines() if cpus.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.machine()
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"
