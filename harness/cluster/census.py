"""Which nodes of a cluster a run can use: it changes while nodes join, leave or fail to start workers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prmcal.errors import ClusterError
from prmcal.harness.cluster.nodes import Node, alive_nodes, inspect_nodes
from prmcal.harness.execution.schedule import MOST_TRIES, Notice

__all__ = ["Census"]

_SECONDS_BETWEEN_COUNTS = 2.0
_SECONDS_OF_REST = 10.0


class Census:
    """Counts the nodes of a cluster, and inspects those that join.

    Parameters
    ----------
    ray : module
    paths : sequence of Path
        Files and folders that every node must have.

    Attributes
    ----------
    usable : dict of str to Node
        The nodes that the run uses, by their ids.

    Raises
    ------
    ClusterError
        If a node cannot be used at the beginning. Later, such a node is told and left out.
    """

    def __init__(self, ray: Any, paths: Sequence[Path]) -> None:
        self._ray = ray
        self._paths = paths
        self._refused: set[str] = set()
        self._failed_starts: Counter[str] = Counter()
        self._resting: dict[str, float] = {}
        self._next = 0.0
        nodes = alive_nodes(ray)
        found = inspect_nodes(ray, list(nodes.values()), paths)
        refused = [why for why in found.values() if why]
        if refused:
            more = f" {len(refused) - 1} more nodes cannot be used either." if len(refused) > 1 else ""
            raise ClusterError(refused[0] + more)
        self.usable = {key: node for key, node in nodes.items() if key not in found}

    def take(self) -> tuple[list[Node], list[Notice]]:
        """Count the nodes again, every two seconds. Return those that have left, and what is to be told."""
        if time.monotonic() < self._next:
            return [], []
        self._next = time.monotonic() + _SECONDS_BETWEEN_COUNTS
        alive = alive_nodes(self._ray)
        left = [node for key, node in self.usable.items() if key not in alive]
        notices = [
            Notice(f"The node {each.name} has left the cluster. Its shards are computed again.")
            for each in left
        ]
        for node in left:
            del self.usable[node.id]
        joined = [node for key, node in alive.items() if key not in self.usable and key not in self._refused]
        notices += self._inspect(joined) if joined else []
        if left and not self.usable:
            notices.append(Notice("No node is left. The run waits for nodes."))
        return left, notices

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

        Raises
        ------
        ClusterError
            If it was the only node.
        """
        self._failed_starts[node] += 1
        self._resting[node] = time.monotonic() + _SECONDS_OF_REST
        if self._failed_starts[node] < MOST_TRIES or node not in self.usable:
            return []
        del self.usable[node]
        self._refused.add(node)
        why = f"Workers cannot start on the node {name} ({reason}). The run does not use it."
        if not self.usable:
            raise ClusterError(why)
        return [Notice(why)]

    def _inspect(self, joined: Sequence[Node]) -> list[Notice]:
        found = inspect_nodes(self._ray, joined, self._paths)
        notices = []
        for node in joined:
            why = found.get(node.id)
            if why is None:
                self.usable[node.id] = node
                told = f"The node {node.name} has joined the cluster ({node.cpus} cores, {node.gpus} GPUs)."
                notices.append(Notice(told))
            elif why:
                self._refused.add(node.id)
                notices.append(Notice(f"{why} The run does not use it."))
        return notices
