"""All prefixes of many trajectories in one forward pass.

A process reward model reads a score at a marker that follows a prefix, so T + 1 prefixes cost T + 1 forward passes when
they are run one by one. Their token ids share long beginnings: merged into a trie, each distinct beginning is computed
once. A token attends only to its ancestors and itself, and its position is its depth, so that every path from the root
sees exactly what it would see alone. The trie is built from each prefix's own token ids, which keeps it exact for any
tokenizer, also where a merge straddles the boundary between two steps.

The same construction is known from speculative decoding as tree attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = [
    "TokenTree",
    "ancestor_mask",
    "build_token_tree",
    "collate_token_trees",
    "shared_length",
    "token_tree_size",
]

ROOT = -1


@dataclass(frozen=True)
class TokenTree:
    """A trie of token sequences, its nodes in an order in which parents come before children.

    Attributes
    ----------
    input_ids : ndarray of int64, shape (nodes,)
        The token of every node.
    position_ids : ndarray of int64, shape (nodes,)
        The depth of every node: the token's position in each sequence that runs through it.
    parents : ndarray of int64, shape (nodes,)
        The node before it, or -1 for a first token.
    leaves : ndarray of int64, shape (sequences,)
        The node of the last token of every sequence. Equal sequences share one.
    """

    input_ids: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    parents: NDArray[np.int64]
    leaves: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.input_ids)


def build_token_tree(sequences: Sequence[Sequence[int]]) -> TokenTree:
    """Merge token sequences into a trie.

    Parameters
    ----------
    sequences : sequence of sequences of int
        Token ids; none may be empty, since an empty one has no last token to read.

    Returns
    -------
    TokenTree
        `leaves[i]` belongs to `sequences[i]`.
    """
    if not sequences:
        raise ValueError("A token tree needs at least one sequence. Got none.")
    children: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    leaves: list[int] = []
    before: tuple[int, ...] = ()
    path: list[int] = []
    for index, sequence in enumerate(map(tuple, sequences)):
        if len(sequence) == 0:
            raise ValueError(
                f"Sequence {index} of a token tree is empty: it has no last token to read a score at."
            )
        # Most of a prefix is what the one before it began with: only what follows is looked up.
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
    return TokenTree(
        input_ids=np.array(tokens, dtype=np.int64),
        position_ids=np.array(depths, dtype=np.int64),
        parents=np.array(parents, dtype=np.int64),
        leaves=np.array(leaves, dtype=np.int64),
    )


def token_tree_size(sequences: Sequence[Sequence[int]]) -> int:
    """How many nodes the tree of some token sequences has, without building it."""
    ordered = sorted(set(map(tuple, sequences)))
    return sum(
        len(sequence) - shared_length(before, sequence)
        for before, sequence in zip([(), *ordered], ordered, strict=False)
    )


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences of one type begin with in common."""
    shared, end = 0, min(len(first), len(second))
    while shared < end:  # by halves: to compare slices takes a fraction of the time of a loop over tokens
        middle = (shared + end + 1) // 2
        if first[shared:middle] == second[shared:middle]:
            shared = middle
        else:
            end = middle - 1
    return shared


def ancestor_mask(parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which nodes every node attends to: its ancestors and itself.

    Parameters
    ----------
    parents : ndarray of int64, shape (nodes,)
        Parents before children, -1 for a first token.

    Returns
    -------
    ndarray of bool, shape (nodes, nodes)
        Row i is true at i and at every ancestor of i.

    Notes
    -----
    A row is its parent's row and itself, so one copy of a row per node is all the work, except that a run of nodes in
    which each is the child of the one before (most of any trie) is filled at once as a triangle.
    """
    nodes = len(parents)
    mask = np.zeros((nodes, nodes), dtype=np.bool_)
    starts = np.flatnonzero(parents != np.arange(-1, nodes - 1)) if nodes else np.zeros(0, dtype=np.int64)
    starts = np.union1d(starts, [0]) if nodes else starts
    for start, stop in zip(starts, np.append(starts[1:], nodes), strict=True):
        parent = parents[start]
        if parent != ROOT:
            mask[start:stop, : parent + 1] = mask[parent, : parent + 1]
        mask[start:stop, start:stop] = np.tri(stop - start, dtype=np.bool_)
    return mask


def collate_token_trees(
    trees: Sequence[TokenTree], pad_id: int, dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """Pad trees to one batch that a transformers model takes as keyword arguments.

    Parameters
    ----------
    trees : sequence of TokenTree
        The B trees of the batch; L is the size of the largest.
    pad_id : int
        Token of the padding nodes.
    dtype : torch.dtype, optional
        Floating type of the mask: the model's own. float32 unless told.

    Returns
    -------
    dict of tensors
        `input_ids` (B, L), `position_ids` (B, L) and `attention_mask` (B, 1, L, L).

    Notes
    -----
    The mask is additive: 0 where attention is allowed, the type's lowest number elsewhere. A boolean one would be
    silently wrong under eager attention, which adds it to the scores. A padding node attends to itself only: a row
    without any allowed entry would be a softmax over nothing.
    """
    import torch

    dtype = torch.float32 if dtype is None else dtype
    longest = max(len(tree) for tree in trees)
    input_ids = np.full((len(trees), longest), pad_id, dtype=np.int64)
    position_ids = np.zeros((len(trees), longest), dtype=np.int64)
    allowed = np.zeros((len(trees), longest, longest), dtype=np.bool_)
    for row, tree in enumerate(trees):
        size = len(tree)
        input_ids[row, :size] = tree.input_ids
        position_ids[row, :size] = tree.position_ids
        allowed[row, :size, :size] = ancestor_mask(tree.parents)
        padding = np.arange(size, longest)
        allowed[row, padding, padding] = True
    attention_mask = torch.zeros((len(trees), 1, longest, longest), dtype=dtype)
    attention_mask.masked_fill_(~torch.from_numpy(allowed)[:, None], torch.finfo(dtype).min)
    return {
        "input_ids": torch.from_numpy(input_ids),
        "position_ids": torch.from_numpy(position_ids),
        "attention_mask": attention_mask,
    }
