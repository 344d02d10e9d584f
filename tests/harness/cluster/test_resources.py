"""How many workers each node of a cluster gets. The tests need no cluster."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.errors import ClusterError
from prmcal.harness.cluster.nodes import Node, connected, slots_of
from prmcal.harness.execution.machine import too_large
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import PluginReference, QuestionSlice, ScoreParameters
from prmcal.harness.storage.store import ArtifactRef


def cluster(*sizes: tuple[int, int]) -> dict[str, Node]:
    """Nodes with these numbers of cores and GPUs."""
    return {f"n{i}": Node(f"n{i}", f"node-{i}", cpus, gpus) for i, (cpus, gpus) in enumerate(sizes)}


def test_without_gpus_every_core_has_a_worker() -> None:
    slots = slots_of(cluster((2, 0), (3, 0), (0, 0)), None)
    assert sorted((slot.node, slot.gpus) for slot in slots) == [("n0", ())] * 2 + [("n1", ())] * 3


def test_with_gpus_every_gpu_has_a_worker_and_the_first_ones_are_on_different_nodes() -> None:
    slots = slots_of(cluster((8, 2), (16, 3), (3, 0)), None)
    assert [slot.node for slot in slots] == ["n0", "n1", "n0", "n1", "n1"]
    assert all(len(slot.gpus) == 1 for slot in slots)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=5))
def test_no_node_is_asked_for_more_than_it_has(sizes: list[tuple[int, int]]) -> None:
    nodes = cluster(*sizes)
    slots = slots_of(nodes, None)
    assert len(set(slots)) == len(slots)
    for node in nodes.values():
        own = [slot for slot in slots if slot.node == node.id]
        gpus = [gpu for slot in own for gpu in slot.gpus]
        assert len(own) <= node.cpus
        assert len(gpus) == len(set(gpus)) == min(node.gpus, node.gpus * node.cpus)


def test_workers_do_not_share_gpus() -> None:
    with pytest.raises(ClusterError, match=r"--workers 3 is too many.*enough for 2\. A worker has whole GPUs"):
        slots_of(cluster((8, 2)), 3)


@pytest.mark.parametrize(("size", "message"), [(4, "spread over 4 GPUs, and the node has 2"), (2, "")])
def test_models_that_the_cluster_cannot_hold(size: int, message: str) -> None:
    prm = PluginReference("large", "qwen-vllm", {"checkpoint": "nano:prm", "tensor_parallel": size})
    score = ScoreParameters(prm=prm, data=QuestionSlice(prm, "test", range(1)), trajectories=range(1))
    why = too_large(Shard(ArtifactRef("score", "0"), score, {}, "prm:large"), 2, "the node has")
    assert re.search(message, why.reason) if why else not message


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "127.0.0.1:1",
            r"Nobody listens at 127.0.0.1:1 \(Connection refused\). Start the head node: ray start --head",
        ),
        ("no-such-host.invalid:6379", "Nobody listens at no-such-host.invalid:6379"),
        ("10.0.0.1", "--address must be HOST:PORT of the head node, such as 10.0.0.1:6379. Got '10.0.0.1'."),
        ("10.0.0.1:99999", "--address must be HOST:PORT"),
        ("ray://10.0.0.1:10001", "--address must be HOST:PORT"),
    ],
)
def test_an_address_where_no_cluster_is(address: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message), connected(address):
        raise AssertionError("connected")


def test_other_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster has:\n    Ray: 1.0\nThis process has:\n    Ray: 2.0\n")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    told = r"machine: Version mismatch: The cluster has: Ray: 1\.0 This process has: Ray: 2\.0\. If the cluster"
    with pytest.raises(ClusterError, match=told), connected(None):
        pass
