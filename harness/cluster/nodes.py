"""The connection to a Ray cluster, and its nodes: their workers, and whether they compute the coordinator's bytes.

A worker has whole GPUs, or one core if no node has GPUs. Nodes join, leave or fail to start workers during a run.
"""

import hashlib
import importlib
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prmcal
from prmcal.errors import ClusterError
from prmcal.harness.execution.events import Notice
from prmcal.harness.execution.machine import Slot, gpus_of_worker, package_versions
from prmcal.harness.execution.schedule import MOST_TRIES
from prmcal.registry.messages import excerpt

_SECONDS_TO_ANSWER = 600.0  # A node may import its packages from a slow network disk.
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_COUNTS = 2.0
_SECONDS_OF_REST = 10.0
_SECONDS_TO_CONNECT = 5.0
_SECONDS_WITHOUT_HEAD = 20.0  # After 60 s Ray ends the process.
_LONGEST_CAUSE = 600  # Other versions are named in the lines after the first.
_SETTINGS = {
    # With `uv run` on the coordinator, Ray would start the workers in an environment of their own.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # The workers set CUDA_VISIBLE_DEVICES themselves. Without this, Ray prints a warning about it.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The use of a cluster by a run."""

    address: str | None = None
    """``HOST:PORT`` of the head node; None for the cluster on this machine, or a new one."""
    workers: int | None = None
    """The largest number of workers; None for as many as fit."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster while the block runs, and yield the module ``ray``.

    `address` is ``HOST:PORT`` of the head node. By default it is the cluster that runs on this machine, or a new Ray on
    this machine that ends with the run.

    Raises a ClusterError if Ray is not installed, nobody answers at the address, or the versions of Ray or Python
    differ.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None:
        _check_listening(address)
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "--executor ray needs Ray. Install it in a clone of prmcal: pip install '.[ray]'."
        ) from error
    if ray.is_initialized():
        yield ray  # It belongs to the program that runs the grid, such as a notebook.
        return
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        ray.init(address=address, include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        where = f"the cluster at {address}" if address else "Ray on this machine"
        why = excerpt(str(error) or type(error).__name__, _LONGEST_CAUSE)
        raise ClusterError(
            f"prmcal cannot connect to {where}: {why.rstrip('.')}. If the cluster was started with a token, set "
            "RAY_AUTH_MODE=token, and copy ~/.ray/auth_token from its head node."
        ) from error
    try:
        # For each node that is lost, Ray prints the end of that node's log. The log of the run has a sentence instead.
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield ray
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise a ClusterError unless somebody listens at ``HOST:PORT``. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise ClusterError(f"--address must be HOST:PORT of the head node, such as 10.0.0.1:6379. Got {address!r}.")
    if why := _silence(address):
        raise ClusterError(
            f"Nobody listens at {address} ({why}). Start the head node: ray start --head --port {port}. `ray status` "
            "shows the address of a cluster."
        )


def _silence(address: str) -> str:
    """Return why nobody listens at ``HOST:PORT``, or an empty text if somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster."""

    id: str
    """Ray's name for it."""
    name: str
    """The host name of the node, or its address if several nodes have this host name."""
    cpus: int
    gpus: int
    """The resources that Ray may give to actors."""


def alive_nodes(ray: Any) -> dict[str, Node]:
    """Return the nodes that are alive, by their ids."""
    alive = [state for state in ray.nodes() if state["Alive"]]
    hosts = Counter(state["NodeManagerHostname"] for state in alive)
    nodes = {}
    for state in alive:
        host, key = state["NodeManagerHostname"], state["NodeID"]
        name = host if hosts[host] == 1 else state["NodeManagerAddress"]
        cpus, gpus = (int(state["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        nodes[key] = Node(key, name, cpus, gpus)
    return nodes


class Inspection:
    """Asks nodes for their versions of Python, prmcal and the packages that decide results, and does not wait."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._versions = state_of_node()
        self._answers: dict[str, Any] = {}
        self._ends: dict[str, float] = {}

    def verdicts(self, nodes: Iterable[Node]) -> dict[str, str | None]:
        """Return why nodes cannot be used, by their ids: empty for a usable node, None for one that has left.

        A node that has not answered yet is absent. After ten minutes it cannot be used.
        """
        verdicts = {}
        for node in nodes:
            if node.id not in self._answers:
                place = on_node(self._ray, node.id)
                task = self._ray.remote(state_of_node).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
                self._answers[node.id] = task.remote()
                self._ends[node.id] = time.monotonic() + _SECONDS_TO_ANSWER
            with suppress(TimeoutError):
                verdicts[node.id] = self._verdict(node)
        return verdicts

    def _verdict(self, node: Node) -> str | None:
        answer, failures = self._answers[node.id], self._ray.exceptions
        try:
            versions = self._ray.get(answer, timeout=0)
        except (failures.TaskUnschedulableError, failures.NodeDiedError):
            return None  # Ray still lists a node for some seconds after it has left.
        except failures.GetTimeoutError:
            if time.monotonic() < self._ends[node.id]:
                raise
            self._ray.cancel(answer, force=True)
            return f"The node {node.name} cannot be used: it did not answer in {_SECONDS_TO_ANSWER:.0f} s."
        except Exception as error:
            why = cause_of(error)
            if "failed to import" in why:
                why = f"it has no prmcal {prmcal.__version__}. Install the same versions there"
            return f"The node {node.name} cannot be used: {why}."
        pairs = {name: (versions.get(name), version) for name, version in self._versions.items()}
        differing = [f"{name} {there} instead of {here}" for name, (there, here) in pairs.items() if there != here]
        text = f"The node {node.name} has other versions: {', '.join(differing)}. Install the same there."
        return text if differing else ""


def cause_of(error: BaseException) -> str:
    """Return the first line of the cause of an error of Ray, without a full stop."""
    cause = getattr(error, "cause", None)
    text = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    lines = text.strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(". ")[:300]


def on_node(ray: Any, node: str) -> Any:
    """Return the strategy that places an actor or a task on a node, or nowhere."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def state_of_node() -> dict[str, str]:
    """Return the versions of the software that decides results on this node."""
    root, content = Path(prmcal.__file__).parent, hashlib.sha256()
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for path in sorted(Path(folder) / file for file in files if file.endswith(".py")):
            content.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    versions = {"prmcal": prmcal.__version__, "files of prmcal": content.hexdigest()[:8]}
    return package_versions() | versions


def slots_of(nodes: Mapping[str, Node], workers: int | None) -> list[Slot]:
    """Return the smallest places of workers: every GPU, or every core if no node has GPUs.

    `workers` is the largest number of workers, spread over the nodes. By default, as many workers as fit.

    Raises a ClusterError if there are fewer GPUs than `workers`. Workers do not share GPUs.
    """
    on_gpus = any(node.gpus for node in nodes.values())
    slots = []
    for node in nodes.values():
        count = min(node.gpus, node.cpus) if on_gpus else node.cpus
        gpus = [str(gpu) for gpu in range(node.gpus)]
        slots += [Slot(place, node.id, gpus_of_worker(gpus, count, place)) for place in range(count)]
    if workers is not None and on_gpus and workers > len(slots):
        raise ClusterError(
            f"--workers {workers} is too many: the GPUs of the cluster are enough for {len(slots)}. A worker has whole "
            f"GPUs. Use --workers {len(slots)}, or leave it out."
        )
    return sorted(slots)  # By their numbers, so that the first workers are on different nodes.


class Census:
    """Counts the nodes of a cluster, and inspects new ones.

    Raises a ClusterError if a node cannot be used at the beginning. Later, such a node is reported and left out.

    Attributes
    ----------
    usable : dict of str to Node
        The nodes that the run uses, by their ids.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._inspection = Inspection(ray)
        self._refused: set[str] = set()
        self._failed_starts: Counter[str] = Counter()
        self._resting: dict[str, float] = {}
        self._next = 0.0
        self._head = ray.get_runtime_context().gcs_address
        self._heard = time.monotonic()
        while (alive := alive_nodes(ray)).keys() - (verdicts := self._inspection.verdicts(alive.values())).keys():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        refused = [why for why in verdicts.values() if why]
        if refused:
            more = f" {len(refused) - 1} more nodes cannot be used either." if len(refused) > 1 else ""
            raise ClusterError(refused[0] + more)
        self.usable = {key: node for key, node in alive.items() if verdicts[key] is not None}

    def take(self) -> tuple[list[Node], list[Notice]]:
        """Count the nodes again, every two seconds. Return nodes that have left, and notices to be reported."""
        if time.monotonic() < self._next:
            return [], []
        self._next = time.monotonic() + _SECONDS_BETWEEN_COUNTS
        if why := _silence(self._head):
            if time.monotonic() < self._heard + _SECONDS_WITHOUT_HEAD:
                return [], []
            raise ClusterError(
                f"The head node at {self._head} is gone ({why}). Start the cluster again, then run the same command: "
                "finished shards are kept."
            )
        self._heard = time.monotonic()
        alive = alive_nodes(self._ray)
        departed = [node for key, node in self.usable.items() if key not in alive]
        notices = []
        for node in departed:
            del self.usable[node.id]
            notices.append(Notice(f"The node {node.name} has left the cluster. Its shards are computed again."))
        joined = [node for key, node in alive.items() if key not in self.usable and key not in self._refused]
        notices += self._inspect(joined) if joined else []
        if departed and not self.usable:
            notices.append(Notice("No node is left. The run waits for nodes."))
        return departed, notices

    def soon(self) -> None:
        """Count the nodes at the next occasion, because a worker is gone."""
        self._next = 0.0

    def rests(self, node: str) -> bool:
        """Return whether no worker is to be started on a node now, because the last one did not start."""
        return time.monotonic() < self._resting.get(node, 0.0)

    def started(self, node: str) -> None:
        """Note that a worker of a node has computed a shard."""
        self._failed_starts[node] = 0

    def failed_start(self, node: str, name: str, reason: str) -> list[Notice]:
        """Note that a worker could not start on a node. After three times the node is not used any more.

        The pauses between them are long enough for Ray to find out that a node has left.

        Raises a ClusterError if it was the only node.
        """
        self._failed_starts[node] += 1
        self._resting[node] = time.monotonic() + _SECONDS_OF_REST
        if self._failed_starts[node] < MOST_TRIES:
            return []
        return self.refuse(node, f"Workers cannot start on the node {name} ({reason}).")

    def refuse(self, node: str, why: str) -> list[Notice]:
        """Use a node no longer. `why` is a sentence. Raises a ClusterError if it was the only node."""
        if self.usable.pop(node, None) is None:
            return []
        self._refused.add(node)
        if not self.usable:
            raise ClusterError(why)
        return [Notice(f"{why} The run does not use it.")]

    def _inspect(self, joined: Sequence[Node]) -> list[Notice]:
        verdicts = self._inspection.verdicts(joined)
        notices = []
        for node in joined:
            why = verdicts.get(node.id)
            if why:
                self._refused.add(node.id)
                notices.append(Notice(f"{why} The run does not use it."))
            elif why == "":
                self.usable[node.id] = node
                resources = f"{node.cpus} cores, {node.gpus} GPUs"
                notices.append(Notice(f"The node {node.name} has joined the cluster ({resources})."))
        return notices
