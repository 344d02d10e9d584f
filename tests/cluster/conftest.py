"""Tests with real Ray clusters on this machine, for which Ray is installed by `make test-ray`.

A cluster has a head without cores, and nodes that share no cache.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Nodes

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster for all tests of a file."""
    found = Nodes(tmp_path_factory.mktemp("nodes"))
    for _ in range(2):
        found.add()
    yield found
    found.close()
