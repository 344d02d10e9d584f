"""The machine and the seats of its workers: GPUs, hardware, versions of packages, and which shards a worker takes.

The GPUs of a process are fixed when it starts. If a shard's models need more GPUs than a slot has, the shard waits
until idle workers can make room for a larger one. A larger worker without work makes room for small ones. So no GPU is
idle while a shard for it is ready, and small shards come before large ones.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from prmcal import __version__
from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import ALL_GPUS, Parameters

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that restricts a process to some GPUs."""
_QUERY = "nvidia-smi"
_QUERY_SECONDS = 20.0
_MOST_WORKERS = 8
_PACKAGES = ("duckdb", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "sqlalchemy", "torch", "transformers")


def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs in CUDA_VISIBLE_DEVICES, or the numbers of all GPUs if it is not set."""
    chosen = os.environ.get(GPU_VARIABLE)
    if chosen is None:
        return tuple(str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*")))
    return tuple(name for part in chosen.split(",") if (name := part.strip()) and name != "-1")


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

    Each GPU has a worker. Without GPUs, there is one for each core that this process may use, at most eight.
    """
    # A scheduler gives a job some of the cores.
    return len(visible_gpus()) or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def gpus_of_worker(gpus: Sequence[str], workers: int, place: int) -> tuple[str, ...]:
    """Return the GPUs of one worker. The numbers of GPUs of two workers differ by one at most.

    `gpus` are the names of all GPUs, and `place` is the worker's number, in [0, workers). If there are more workers
    than GPUs, some workers share a GPU.
    """
    if workers >= len(gpus):
        return tuple(gpus[place % len(gpus) :][:1]) if gpus else ()
    return tuple(gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers])


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that determine results, by name."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}


def hardware() -> dict[str, Any]:
    """Return the processor type, the operating system, the number of cores and the memory in GiB."""
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    system = f"{platform.system()} {platform.release()}"
    return {"machine": platform.machine(), "system": system, "cores": os.cpu_count(), "memory_gib": memory}


def run_environment() -> dict[str, Any]:
    """Return the environment in the record of a run, by column: prmcal_version, packages and hardware."""
    machine = {**hardware(), "gpus": describe_gpus()}
    return {"prmcal_version": __version__, "packages": package_versions(), "hardware": machine}


def too_large(shard: Shard[Parameters], most: int, where: str) -> Failure | None:
    """Return why a shard cannot be computed with at most `most` GPUs, above 0; None if it can. `where` says whose."""
    for _, model in shard.models:
        if most < model.gpus < ALL_GPUS:
            return Failure(
                f"{model.name} is spread over {model.gpus} GPUs, and {where} {most}. Lower its 'tensor_parallel', or "
                "run its cells on a machine with more.",
                "input",
            )
    return None


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """The smallest place of a worker."""

    number: int
    """The number of the slot among the slots of this kind on its node."""
    node: str
    """The id of the node; empty on one machine."""
    gpus: tuple[str, ...] = ()
    """The names of its GPUs."""


def slots_of_machine(gpus: Sequence[str], workers: int) -> list[Slot]:
    """Return a slot for each worker of one machine, which has these GPUs."""
    return [Slot(number, "", gpus_of_worker(gpus, workers, number)) for number in range(workers)]


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one worker: a slot, or several of one node."""

    slots: tuple[Slot, ...]
    takes: Container[int]
    """The numbers of GPUs that the shards need that it computes, 0 for no model. Larger models need another seat."""

    @property
    def gpus(self) -> tuple[str, ...]:
        """The names of its GPUs."""
        return _gpus(self.slots)

    def fits(self, needed: int) -> bool:
        """Return whether it computes shards that need this number of GPUs."""
        return needed in self.takes


@dataclass(eq=False, kw_only=True)
class Worker:
    """A worker of a run."""

    seat: Seat
    name: str
    shard: Shard[Parameters] | None = None
    """The shard that it computes."""
    loaded: str = ""
    """The model that it has loaded, as shards name it; empty for none."""
    ready: bool = True
    """False while it starts."""

    @property
    def idle(self) -> bool:
        """True while it waits for a shard."""
        return self.ready and self.shard is None


AnyWorker = TypeVar("AnyWorker", bound=Worker)


def next_start(
    ready: Mapping[int, int], slots: Sequence[Slot], workers: Collection[AnyWorker], most: int | None = None
) -> tuple[Seat, Sequence[AnyWorker]] | None:
    """Return the seat of the next worker to be started, and the idle workers that end to make room for it.

    Call it after shards were handed out, so that no shard is left for an idle worker. Returns None if no worker is to
    be started.

    `ready` are the numbers of shards that are ready, by the GPUs that they need. `slots` are all usable slots, the
    preferred ones first, and `most` is the largest number of workers, by default as many as fit.
    """
    for needed, shards in ready.items():
        if shards > sum(not worker.ready and worker.seat.fits(needed) for worker in workers):
            start = _seat(needed, slots, workers, most)
            if start is not None:
                return start
    return None


def _seat(
    needed: int, slots: Sequence[Slot], workers: Collection[AnyWorker], most: int | None
) -> tuple[Seat, Sequence[AnyWorker]] | None:
    holders = {slot: worker for worker in workers for slot in worker.seat.slots}
    nodes: dict[str, list[Slot]] = {}
    for slot in slots:
        nodes.setdefault(slot.node, []).append(slot)
    choices = []
    for node_slots in nodes.values():
        free = [slot for slot in node_slots if slot not in holders]
        held = [slot for slot in node_slots if slot in holders and holders[slot].idle]
        seat = _enough(needed, [*free, *held], len(_gpus(node_slots)))
        if seat is not None:
            ended = dict.fromkeys(holders[slot] for slot in seat.slots if slot in holders)
            choices.append((seat, list(ended)))
    if not choices:
        return None
    seat, ended_workers = min(choices, key=lambda choice: (len(choice[1]), choice[0].slots[0].number))
    if most is not None:
        others = [worker for worker in workers if worker not in ended_workers]
        surplus = len(others) - most + 1
        more = [worker for worker in others if worker.idle][: max(0, surplus)]
        if len(more) < surplus:
            return None
        ended_workers += more
    return seat, ended_workers


def _enough(needed: int, slots: Sequence[Slot], gpus_of_node: int) -> Seat | None:
    """Return a seat of a node's first slots with enough GPUs; or None."""
    takes_what_is_there = needed == ALL_GPUS or not gpus_of_node
    target = min(needed, gpus_of_node) if takes_what_is_there else needed
    chosen: list[Slot] = []
    for slot in slots:
        before = len(_gpus(chosen))
        if chosen and before == len(_gpus([*chosen, slot])):
            continue  # It shares its GPUs with another one.
        chosen.append(slot)
        room = len(_gpus(chosen))
        if room >= target:
            if not gpus_of_node:
                return Seat(tuple(chosen), range(ALL_GPUS + 1))
            # Shards that need fewer GPUs have smaller seats.
            return Seat(tuple(chosen), {0, *range(before + 1, room + 1), *([ALL_GPUS] if room == gpus_of_node else [])})
    return None


def _gpus(slots: Sequence[Slot]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for slot in slots for name in slot.gpus))
