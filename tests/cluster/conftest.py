"""A real Ray cluster on this machine: a head without cores, and nodes that share no cache."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'prmcal[ray]'")

from tests.cluster.nodes import Nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster for all tests of a file."""
    found = Nodes(tmp_path_factory.mktemp("nodes"))
    for _ in range(2):
        found.add()
    yield found
    found.close()
