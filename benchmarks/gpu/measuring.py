"""Time and memory of work on a GPU, and the rows that a step of the benchmark reports."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from prmcal.harness.planning.gpu_hours import Task, hours_of
from prmcal.registry.models.memory import free_reserved

Row = dict[str, Any]
"""One line of a step's table: the name of a column, and a text or a number."""


@dataclass(frozen=True)
class Options:
    """What every step gets."""

    tiny: bool
    """Tiny models on the CPU, where times mean nothing."""
    peak: float
    """The measured operations per second of a large product of matrices in bfloat16."""

    def planned(self, parameters: int, task: Task, tokens: int, seconds: float) -> str:
        """Return the time that `prmcal plan` expects for some work, as a share of the time that it took."""
        return f"{3600 * hours_of(parameters / 1e9, {task: tokens}) / seconds:.2f}"

    def share(self, operations: float, seconds: float) -> str:
        """Return the share of the measured peak that some work reached."""
        return f"{operations / seconds / self.peak:.0%}"


Step = Callable[[Options], Iterator[Row]]


@dataclass(frozen=True)
class Timing:
    """The least time of some repeats, and the most memory."""

    seconds: float
    gibibytes: float
    """Memory that torch had in use at most, weights included; NaN on a CPU."""


def measure(work: Callable[[], object], repeats: int = 2, warm_up: bool = True) -> Timing:
    """Run some work and return its time and memory. The first run only warms up."""
    cuda = torch.cuda.is_available()
    if warm_up:
        work()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return Timing(min(times), torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan"))


@contextmanager
def no_more_than(gibibytes: int) -> Iterator[None]:
    """Let torch use no more memory than a smaller GPU has."""
    if not torch.cuda.is_available():
        yield
        return
    free_reserved()
    torch.cuda.set_per_process_memory_fraction(
        min(1.0, gibibytes * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    )
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@contextmanager
def advice() -> Iterator[list[str]]:
    """Collect what is said where the memory is not enough."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("prmcal.registry.models.memory")
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def peak(tiny: bool) -> float:
    """Return the operations per second of a product of two large random matrices in bfloat16."""
    size = 256 if tiny else 8192
    where, dtype = ("cpu", torch.float32) if tiny else ("cuda", torch.bfloat16)
    a, b = (torch.randn(size, size, device=where, dtype=dtype) for _ in range(2))
    return 2 * size**3 * 10 / measure(lambda: [a @ b for _ in range(10)]).seconds
