"""Tests with real Ray clusters on this machine, for which Ray is installed by `make test-ray`.

A cluster has a head without cores.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Nodes

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Nodes]:
    """The only cluster. Its start takes as long as a test, and each run connects and has workers of its own."""
    found = Nodes()
    yield found
    found.close()


@pytest.fixture
def nodes(cluster: Nodes) -> Nodes:
    """The cluster with two nodes of one core, whatever the last test has left."""
    for node in list(cluster.alive):
        if node not in cluster.plain:
            cluster.kill(node)
    while len(cluster.alive) < 2:
        cluster.add()
    return cluster
