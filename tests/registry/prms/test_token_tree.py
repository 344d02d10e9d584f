"""A pass over a token tree equals separate passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.prms.token_tree import (
    build_token_tree,
    collate_token_trees,
    depth_first,
    token_tree_size,
)


def ancestor_mask(parents: np.ndarray) -> np.ndarray:
    place, end = depth_first(parents)
    return (place[:, None] >= place) & (place[:, None] < end)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12))
def test_every_distinct_beginning_is_one_node(sequences: list[list[int]]) -> None:
    beginnings = {tuple(each[:length]) for each in sequences for length in range(1, len(each) + 1)}
    tree = build_token_tree(sequences)
    assert len(tree) == token_tree_size(sequences) == len(beginnings)
    for sequence, leaf in zip(sequences, tree.leaves, strict=True):
        path = np.flatnonzero(ancestor_mask(tree.parents)[leaf])
        assert tree.input_ids[path].tolist() == sequence
        assert tree.position_ids[path].tolist() == list(range(len(sequence)))


def test_mask_equals_walking_up_the_tree() -> None:
    random = np.random.default_rng(0)
    parents = np.array([random.integers(-1, node) if random.random() < 0.5 else node - 1 for node in range(200)])
    expected = np.zeros((200, 200), dtype=bool)
    for node in range(200):
        ancestor = node
        while ancestor != -1:
            expected[node, ancestor] = True
            ancestor = parents[ancestor]
    assert (ancestor_mask(parents) == expected).all()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_scores_equal_those_of_separate_passes(attention: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=3,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=attention,
    )
    model = transformers.Qwen2Model(config).eval()
    random = np.random.default_rng(1)
    question = random.integers(0, 60, size=20).tolist()
    steps = [random.integers(0, 60, size=7).tolist() for _ in range(6)]
    marker = 63
    prefixes = [question + [token for step in steps[:count] for token in step] for count in range(7)]
    # A tokenizer may merge the last token of a prefix with its neighbour. The paths then diverge before the end.
    straddling = [*prefixes[3][:-1], 61]
    first = [[*prefix, marker] for prefix in [*prefixes, straddling]]
    second = [[*prefix, marker] for prefix in prefixes[:2]]
    trees = [build_token_tree(first), build_token_tree(second)]
    assert len(trees[0]) < sum(map(len, first)) / 3
    with torch.no_grad():
        hidden = model(**collate_token_trees(trees, pad_id=0)).last_hidden_state
        for row, (tree, sequences) in enumerate(zip(trees, (first, second), strict=True)):
            for leaf, sequence in zip(tree.leaves, sequences, strict=True):
                alone = model(input_ids=torch.tensor([sequence])).last_hidden_state[0, -1]
                torch.testing.assert_close(hidden[row, leaf], alone, atol=1e-5, rtol=0)
