"""The nodes of a Ray cluster on this machine."""

from __future__ import annotations

import os
import signal
from typing import Any


class Nodes:
    """The nodes of a cluster, which tests add and kill."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._count = 0
        self._cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.alive: list[Any] = []
        self.plain: list[Any] = []
        """The nodes with one core and the environment of the tests."""

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, **given: Any) -> Any:
        """Start a node with one core, and with an address of its own."""
        self._count += 1
        settings = {"num_cpus": 1, "node_ip_address": f"127.0.0.{self._count + 1}"}
        node = self._cluster.add_node(**settings | given)
        self.alive.append(node)
        if not given:
            self.plain.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Kill the raylet of a node with SIGKILL, as a power cut or a preemption does."""
        self.alive.remove(node)
        os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()
