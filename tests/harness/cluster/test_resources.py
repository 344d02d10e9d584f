"""How many workers each node of a cluster gets. The tests need no cluster."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prmcal.errors import ClusterError
from prmcal.harness.cluster.nodes import Node, connected, refusal_of, slots_of
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import QuestionSlice, ScoreParameters
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS


def grid(**arguments: Any) -> GridSpec:
    """A grid with a PRM on vLLM."""
    load_plugin_file(PLUGINS / "synthetic.py")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    prm = {"name": "large", "plugin": "qwen-vllm", "arguments": {"checkpoint": "nano:prm"} | arguments}
    return GridSpec.model_validate(data | {"prms": [prm]})


def cluster(*sizes: tuple[int, int]) -> dict[str, Node]:
    """Nodes with these numbers of cores and GPUs."""
    return {f"n{i}": Node(f"n{i}", f"node-{i}", cpus, gpus) for i, (cpus, gpus) in enumerate(sizes)}


def test_without_gpus_every_core_has_a_worker_for_everything() -> None:
    slots = slots_of(cluster((2, 0), (3, 0), (0, 0)), None)
    assert (
        sorted((slot.node, slot.gpus, slot.models) for slot in slots)
        == [("n0", (), None)] * 2 + [("n1", (), None)] * 3
    )


def test_with_gpus_models_run_on_gpus_and_the_rest_beside_them() -> None:
    slots = slots_of(cluster((8, 2), (16, 3), (3, 0)), None)
    assert [slot.node for slot in slots if slot.models] == ["n0", "n1", "n0", "n1", "n1"]
    others = [slot.node for slot in slots if slot.models is False]
    assert {node: others.count(node) for node in set(others)} == {"n0": 2, "n1": 3, "n2": 3}
    assert all(len(slot.gpus) == (slot.models is True) for slot in slots)


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
    with pytest.raises(
        ClusterError, match=r"--workers 3 is too many.*enough for 2\. A worker has whole GPUs"
    ):
        slots_of(cluster((8, 2)), 3)


@pytest.mark.parametrize(
    ("arguments", "gpus", "message"),
    [
        ({"tensor_parallel": 2}, 0, "large needs a GPU, and no node of the cluster has one"),
        ({"checkpoint": "Qwen/Qwen2.5-Math-PRM-7B"}, 0, "large has 7 billion parameters and needs a GPU"),
        ({"device": "cuda"}, 0, "large needs a GPU"),
        ({"tensor_parallel": 4}, 2, "spread over 4 GPUs, and the largest node of the cluster has 2"),
        ({"checkpoint": "Qwen/Qwen2.5-Math-PRM-7B", "device": "cpu"}, 0, ""),
        ({}, 0, ""),
        ({"tensor_parallel": 2}, 2, ""),
    ],
)
def test_models_that_the_cluster_cannot_hold(arguments: dict[str, Any], gpus: int, message: str) -> None:
    prm = grid(**arguments).prms[0].reference()
    score = ScoreParameters(prm, QuestionSlice(prm, "test", range(1)), range(1))
    why = refusal_of(Shard(ArtifactRef("score", "0"), score, {}, "prm:large"), gpus)
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
        raise RuntimeError(
            "Version mismatch: The cluster has:\n    Ray: 1.0\nThis process has:\n    Ray: 2.0\n"
        )

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    told = (
        r"machine: Version mismatch: The cluster has: Ray: 1\.0 This process has: Ray: 2\.0\. If the cluster"
    )
    with pytest.raises(ClusterError, match=told), connected(None):
        pass
