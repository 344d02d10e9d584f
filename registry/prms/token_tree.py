"""Token trees: all prefixes of many trajectories in one forward pass.

A process reward model reads a score at a marker that follows a prefix. Run one by one, T + 1 prefixes cost T + 1
forward passes. But their token ids share long beginnings. In a trie, each distinct beginning is computed once. A token
attends only to its ancestors and itself, and its position is its depth. So every path from the root is computed as if
no other path existed.

The trie is built from the token ids of each whole prefix. It is therefore exact for any tokenizer, even if a token
spans the boundary between two steps. Speculative decoding uses the same construction under the name tree attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from prmcal.arrays import Ints
from prmcal.registry.models.tokenizing import shared_length

if TYPE_CHECKING:
    import torch

ROOT = -1


@dataclass(frozen=True)
class TokenTree:
    """A trie of token sequences. Parents come before their children in the order of the nodes."""

    input_ids: Ints
    """The token of every node."""
    position_ids: Ints
    """The depth of every node, which is the token's position in each of its sequences."""
    parents: Ints
    """The parent of every node, or -1 for a first token."""
    leaves: Ints
    """The node of the last token of every sequence. Equal sequences share a node."""

    def __len__(self) -> int:
        return len(self.input_ids)


def build_token_tree(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """Merge token sequences into a trie. No sequence is empty. `leaves[i]` belongs to `sequences[i]`."""
    children: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    leaves: list[int] = []
    before: tuple[int, ...] = ()
    path: list[int] = []
    for sequence in map(tuple, sequences):
        # A prefix usually begins like the one before it. Only the rest has to be looked up.
        shared = shared_length(before, sequence)
        before, path = sequence, path[:shared]
        node = path[-1] if path else ROOT
        for depth in range(shared, len(sequence)):
            token = sequence[depth]
            child = children.get((node, token))
            if child is None:
                child = children[node, token] = len(tokens)
                tokens.append(int(token))
                depths.append(depth)
                parents.append(node)
            node = child
            path.append(node)
        leaves.append(node)
    return TokenTree(*(np.array(values, dtype=np.int64) for values in (tokens, depths, parents, leaves)))


def subtree(tree: TokenTree, sequences: Ints) -> tuple[Ints, TokenTree]:
    """Return the part of a tree that some of its sequences need, given by their numbers.

    The array has the nodes of the part in the whole tree, ascending, of shape (nodes of the part,), int64. `leaves[i]`
    of the part belongs to the sequence `sequences[i]`.
    """
    is_needed = np.zeros(len(tree), dtype=np.bool_)
    is_needed[tree.leaves[sequences]] = True
    for node in range(len(tree) - 1, -1, -1):
        if is_needed[node] and tree.parents[node] != ROOT:
            is_needed[tree.parents[node]] = True
    nodes = np.flatnonzero(is_needed)
    parents, leaves = renumbered(nodes, tree.parents[nodes], tree.leaves[sequences])
    return nodes, TokenTree(tree.input_ids[nodes], tree.position_ids[nodes], parents, leaves)


def renumbered(nodes: Ints, parents: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of parents and of leaves among some ascending nodes of a tree."""
    return np.where(parents == ROOT, ROOT, np.searchsorted(nodes, parents)), np.searchsorted(nodes, leaves)


def token_tree_size(sequences: Sequence[Sequence[int]]) -> int:
    """Return the number of nodes in the tree of some token sequences, without building it."""
    ordered = sorted(set(map(tuple, sequences)))
    pairs = zip([(), *ordered], ordered, strict=False)
    return sum(len(sequence) - shared_length(before, sequence) for before, sequence in pairs)


def depth_first(parents: Ints) -> tuple[Ints, Ints]:
    """Number the nodes of a forest depth first. Return the place of each, and the place behind its last descendant.

    Node j is an ancestor of node i, or i itself, if and only if ``place[j] <= place[i] < end[j]``. `parents` has the
    parent of every node, -1 for a first token, and parents come before their children. All shapes are (nodes,), int64.
    """
    sizes = [1] * len(parents)
    above = parents.tolist()
    for node in range(len(above) - 1, -1, -1):
        if above[node] != ROOT:
            sizes[above[node]] += sizes[node]
    places, place_of_root = [0] * len(above), 0
    place_of_child = [0] * len(above)  # that of the next child of each node
    for node, parent in enumerate(above):
        if parent == ROOT:
            places[node] = place_of_root
            place_of_root += sizes[node]
        else:
            places[node] = place_of_child[parent]
            place_of_child[parent] += sizes[node]
        place_of_child[node] = places[node] + 1
    place = np.array(places, dtype=np.int64)
    return place, place + np.array(sizes, dtype=np.int64)


def collate_token_trees(
    trees: Sequence[TokenTree], pad_id: int, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
) -> dict[str, torch.Tensor]:
    """Pad B trees to the size L of the largest. Return the keyword arguments of a transformers model.

    These are `input_ids` (B, L), `position_ids` (B, L) and `attention_mask` (B, 1, L, L). Padding nodes have the token
    `pad_id`. The mask has the floating-point type `dtype`, which must be the model's, by default float32. It is made on
    `device`, since it is by far the largest of the tensors.

    The mask is additive: 0 where attention is allowed, and the lowest number of the type elsewhere. Under eager
    attention, which adds the mask to the scores, a boolean mask would be silently wrong. A padding node attends to
    itself, since a softmax needs at least one allowed entry.
    """
    import torch

    dtype = torch.float32 if dtype is None else dtype
    longest = max(len(tree) for tree in trees)
    input_ids = np.full((len(trees), longest), pad_id, dtype=np.int64)
    position_ids = np.zeros((len(trees), longest), dtype=np.int64)
    place = np.tile(np.arange(longest), (len(trees), 1))
    end = place + 1
    for row, tree in enumerate(trees):
        size = len(tree)
        input_ids[row, :size] = tree.input_ids
        position_ids[row, :size] = tree.position_ids
        place[row, :size], end[row, :size] = depth_first(tree.parents)
    places, ends = (torch.from_numpy(values).to(device)[:, None] for values in (place, end))
    node = places.transpose(1, 2)
    attention_mask = torch.zeros((len(trees), longest, longest), dtype=dtype, device=device)
    attention_mask.masked_fill_((node < places) | (node >= ends), torch.finfo(dtype).min)
    return {
        "input_ids": torch.from_numpy(input_ids).to(device),
        "position_ids": torch.from_numpy(position_ids).to(device),
        "attention_mask": attention_mask[:, None],
    }


@dataclass(frozen=True)
class TokenizedTrajectory:
    """The prefixes of one trajectory as token ids. All of them go into the same token tree."""

    prefixes: tuple[tuple[int, ...] | None, ...]
    """The token ids of each prefix, the shortest prefix first; None for a prefix that is too long for the PRM."""
    size: int
    """The number of nodes in the token tree of these prefixes."""

    @classmethod
    def of(cls, prefixes: Sequence[tuple[int, ...] | None]) -> Self:
        """Measure the token tree of some prefixes."""
        return cls(tuple(prefixes), token_tree_size([ids for ids in prefixes if ids is not None]))

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        """The token ids of the prefixes that are not too long."""
        return [ids for ids in self.prefixes if ids is not None]


def pack_trajectories(
    trajectories: Sequence[TokenizedTrajectory], tree_tokens: int, batch_tokens: int, least_share: float = 0.0
) -> list[list[list[int]]]:
    """Pack trajectories into token trees, and trees of similar size into batches of trees of indices.

    The trajectories are in an order in which neighbours share the most tokens. A tree takes no further trajectory
    beyond `tree_tokens` nodes. A longer trajectory has a tree of its own. The last two arguments are as in
    :func:`batch_by_size`.
    """
    trees: list[list[int]] = []
    sizes: list[int] = []
    before: tuple[int, ...] = ()
    for index, trajectory in enumerate(trajectories):
        longest = trajectory.sequences[-1] if trajectory.sequences else ()
        added = trajectory.size - shared_length(before, longest)
        if trees and sizes[-1] + added <= tree_tokens:
            trees[-1].append(index)
            sizes[-1] += added
        else:
            trees.append([index])
            sizes.append(trajectory.size)
        before = longest
    return [[trees[tree] for tree in batch] for batch in batch_by_size(sizes, batch_tokens, least_share)]


def batch_by_size(sizes: Sequence[int], batch_tokens: int, least_share: float = 0.0) -> list[list[int]]:
    """Put token trees with these numbers of nodes into batches of indices, the largest trees first.

    A batch has at most `batch_tokens` nodes, padding included. A larger tree has a batch of its own. A tree that is
    smaller than the share `least_share`, in [0, 1], of a batch's largest tree goes into another batch, where it needs
    less padding.
    """
    batches: list[list[int]] = []
    largest = 0
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        full = not batches or largest * (len(batches[-1]) + 1) > batch_tokens
        if full or sizes[index] < least_share * largest:
            batches.append([])
            largest = sizes[index]
        batches[-1].append(index)
    return batches


def whole_sequences(sequences: Sequence[tuple[int, ...]]) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """Map each sequence to a longest sequence that begins with it. One pass computes both."""
    ordered = sorted(set(sequences), reverse=True)
    longest = {ordered[0]: ordered[0]}
    # In this order, sequences that begin with another one come right before it.
    for longer, shorter in pairwise(ordered):
        longest[shorter] = longest[longer] if longer[: len(shorter)] == shorter else shorter
    return longest
