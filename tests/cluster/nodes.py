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
        # A killed node is noticed by its closed connection. On a busy machine a living one may answer late.
        patient = {"health_check_timeout_ms": 120_000}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": patient}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
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
        node = self._cluster.add_node(wait=False, **settings | given)
        self._cluster._wait_for_node(node, timeout=600)  # add_node itself would wait for 30 s.
        self.alive.append(node)
        if not given:
            self.plain.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Kill the raylet of a node with SIGKILL, as a power cut or a preemption does."""
        self.alive.remove(node)
        os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def kill_head(self) -> None:
        """Kill all processes of the head with SIGKILL."""
        self._cluster.remove_node(self._cluster.head_node, allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()
