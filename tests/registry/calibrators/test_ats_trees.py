"""The trees that adaptive temperature scaling reads prefixes from, and its head on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prmcal.registry.calibrators.ats_network import cut_trees
from prmcal.registry.contracts.data import HiddenStates
from tests.registry.calibrators.test_ats import WIDTH, forest

if TYPE_CHECKING:
    import torch

    from prmcal.registry.calibrators.ats_network import TemperatureHead

pytestmark = pytest.mark.usefixtures("one_thread")


def log_temperatures(head: TemperatureHead, features: HiddenStates, tree_nodes: int) -> torch.Tensor:
    import torch

    from prmcal.registry.calibrators.ats_network import log_temperatures_of_rows

    trees = cut_trees(features, tree_nodes)
    order = np.argsort(np.concatenate([each.rows for each in trees]))
    return log_temperatures_of_rows(head, features.states, trees)[torch.from_numpy(order)]


def path_of(features: HiddenStates, row: int) -> list[int]:
    path, node = [], features.leaves[row]
    while node != -1:
        path.append(node)
        node = features.parents[node]
    return path[::-1]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_trees_hold_every_prefix_once_with_its_whole_path(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 30))
    parents = np.array([data.draw(st.integers(-1, node - 1)) for node in range(nodes)])
    leaves = np.array(data.draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=12)))
    budget = data.draw(st.integers(1, 40))
    features = HiddenStates(np.zeros((nodes, 1), np.float32), parents, leaves, np.zeros(len(leaves)))
    trees = cut_trees(features, budget)
    assert sorted(np.concatenate([each.rows for each in trees])) == list(range(len(leaves)))
    for each in trees:
        paths = [path_of(features, row) for row in each.rows]
        assert set(each.tree.input_ids) == set().union(*paths)
        assert len(each.tree) <= max(budget, *(len(path) for path in paths))
        for leaf, path in zip(each.tree.leaves, paths, strict=True):
            assert each.root == path[0]
            for depth, node in enumerate(reversed(path)):
                assert each.tree.input_ids[leaf] == node
                assert each.tree.position_ids[leaf] == len(path) - 1 - depth
                leaf = each.tree.parents[leaf]
            assert leaf == -1


def test_one_pass_over_the_trees_equals_a_pass_per_prefix() -> None:
    import torch

    from prmcal.registry.calibrators.ats_network import make_head

    features = forest(3, 5, rows=10, nodes=40)
    alone = HiddenStates.concatenate(
        [
            HiddenStates(
                states=features.states[path],
                parents=np.arange(-1, len(path) - 1),
                leaves=np.array([len(path) - 1]),
                logit=np.zeros(1),
            )
            for path in (path_of(features, row) for row in range(len(features)))
        ]
    )
    found = []
    for prefixes, tree_nodes in ((features, 1000), (features, 15), (alone, 1000)):
        head = make_head(np.zeros(WIDTH), np.ones(WIDTH), width=16, layers=2, heads=2, seed=0)
        assert (log_temperatures(head, prefixes, tree_nodes) == 0).all(), "T = 1 before training"
        torch.nn.init.normal_(head.output.weight, generator=torch.Generator().manual_seed(1))
        values = log_temperatures(head, prefixes, tree_nodes)
        (values * torch.linspace(-1, 1, len(values))).sum().backward()
        gradients = [p.grad.flatten() for p in head.parameters() if p.grad is not None]
        found.append((values.detach(), torch.cat(gradients)))
    assert found[0][0].std() > 0.1 and found[0][1].abs().max() > 0.1
    for other_values, other_gradients in found[1:]:
        torch.testing.assert_close(other_values, found[0][0], atol=1e-5, rtol=0)
        torch.testing.assert_close(other_gradients, found[0][1], atol=1e-5, rtol=1e-5)


def test_order_of_tokens_matters() -> None:
    from prmcal.registry.calibrators.ats_network import make_head

    features = forest(1, 6, rows=2, nodes=12)
    swapped = features.states.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    leaves = np.array([5, 5])
    head = make_head(np.zeros(WIDTH), np.ones(WIDTH), width=16, layers=1, heads=2, seed=0)
    head.output.weight.data.fill_(1.0)
    first, second = (
        log_temperatures(head, HiddenStates(states, features.parents, leaves, np.zeros(2)), 100)[0].item()
        for states in (features.states, swapped)
    )
    assert abs(first - second) > 1e-3
