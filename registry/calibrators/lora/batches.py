"""Which prefixes make a batch, and how they share token trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.prms.token_tree import (
    build_token_tree,
    collate_token_trees,
    shared_length,
    token_tree_size,
)
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["Packing", "TreeBatch", "collate", "pack", "plan_batches", "token_ids", "trajectories_of"]

_LIKE_SIZE = 0.75
"""A tree smaller than this share of a pass's largest goes into another pass: the rest would be padding."""


@dataclass(frozen=True)
class Packing:
    """How many tokens go into one token tree, how many into one forward pass, and of which type their mask is."""

    tree_tokens: int
    batch_tokens: int
    dtype: torch.dtype

    @classmethod
    def of(cls, prm: TransformersPRM) -> Packing:
        """As the PRM scores."""
        trunk, _ = prm.modules
        return cls(prm.tree_tokens, prm.batch_tokens, next(trunk.parameters()).dtype)


@dataclass(frozen=True)
class TreeBatch:
    """Some prefixes as token trees for one forward pass.

    Attributes
    ----------
    inputs : dict of tensors
        What the model takes: the trees, and `leaves` of shape (trees, slots).
    rows : ndarray of int64, shape (prefixes,)
        Which prefix each taken slot is.
    taken : ndarray of bool, shape (trees, slots)
        Slots that hold a prefix; the others are padding.
    """

    inputs: dict[str, torch.Tensor]
    rows: NDArray[np.int64]
    taken: NDArray[np.bool_]


def token_ids(prm: TransformersPRM, prefixes: Sequence[Prefix]) -> list[tuple[int, ...]]:
    """What the PRM reads of each prefix.

    Raises
    ------
    PluginFailedError
        If one is longer than the PRM can read.
    """
    read = {prefix: prm.prefix_ids(prefix.question, prefix.steps) for prefix in set(prefixes)}
    found = []
    for prefix in prefixes:
        ids = read[prefix]
        if ids is None:
            raise PluginFailedError(
                f"A prefix of {len(prefix.steps)} steps is longer than the {prm.max_tokens} tokens that the PRM reads. "
                "Leave out prefixes that are flagged as too long."
            )
        found.append(ids)
    return found


def trajectories_of(prefixes: Sequence[Prefix]) -> list[NDArray[np.int64]]:
    """The rows of each trajectory: runs in which each prefix continues the one before, or repeats it."""
    starts = [
        row for row, prefix in enumerate(prefixes) if row == 0 or not _continues(prefix, prefixes[row - 1])
    ]
    return [np.arange(a, b) for a, b in zip(starts, [*starts[1:], len(prefixes)], strict=True)]


def plan_batches(
    units: Sequence[NDArray[np.int64]], batch_size: int, epochs: int, seed: int
) -> list[list[NDArray[np.int64]]]:
    """The rows of every batch of every epoch: whole units in a new random order per epoch, about `batch_size` rows.

    The batches of an epoch are as even as whole units allow. Each plan depends on its arguments alone.
    """
    sizes = np.array([len(unit) for unit in units])
    batches = max(1, round(int(sizes.sum()) / batch_size))
    plan = []
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(units))
        starts = np.concatenate([[0], np.cumsum(sizes[order])[:-1]])
        batch = starts * batches // sizes.sum()
        plan.append(
            [np.concatenate([units[unit] for unit in order[batch == number]]) for number in np.unique(batch)]
        )
    return plan


def pack(
    prefixes: Sequence[Prefix], sequences: Sequence[Sequence[int]], packing: Packing
) -> list[list[list[int]]]:
    """Put prefixes together to token trees, by their indices, and trees of like size to forward passes.

    Parameters
    ----------
    prefixes : sequence of Prefix
    sequences : sequence of sequences of int
        Their token ids.
    packing : Packing

    Returns
    -------
    list of lists of lists of int
        Passes of trees of prefixes.
    """
    order = sorted(range(len(prefixes)), key=lambda index: (prefixes[index].question, prefixes[index].steps))
    trees: list[list[int]] = []
    sizes: list[int] = []
    longest: Sequence[int] = ()
    for run in trajectories_of([prefixes[index] for index in order]):
        trajectory = [order[place] for place in run]
        own = [sequences[index] for index in trajectory]
        size = token_tree_size(own)
        added = size - shared_length(longest, own[-1])
        if trees and sizes[-1] + added <= packing.tree_tokens:
            trees[-1] += trajectory
            sizes[-1] += added
        else:
            trees.append(trajectory)
            sizes.append(size)
        longest = own[-1]
    passes: list[list[list[int]]] = []
    largest = 0
    for number in sorted(range(len(trees)), key=lambda number: -sizes[number]):
        full = largest * (len(passes[-1]) + 1) > packing.batch_tokens if passes else True
        if full or sizes[number] < _LIKE_SIZE * largest:
            passes.append([])
            largest = sizes[number]
        passes[-1].append(trees[number])
    return passes


def collate(
    sequences: Sequence[Sequence[int]], trees: Sequence[Sequence[int]], packing: Packing
) -> TreeBatch:
    """One forward pass over the sequences whose indices `trees` holds."""
    built = [build_token_tree([sequences[index] for index in tree]) for tree in trees]
    slots = max(len(tree) for tree in trees)
    leaves = np.zeros((len(trees), slots), dtype=np.int64)
    taken = np.zeros((len(trees), slots), dtype=np.bool_)
    for number, tree in enumerate(built):
        leaves[number, : len(tree.leaves)] = tree.leaves
        taken[number, : len(tree.leaves)] = True
    inputs = collate_token_trees(built, pad_id=0, dtype=packing.dtype)
    return TreeBatch(
        inputs={**inputs, "leaves": torch.from_numpy(leaves)},
        rows=np.concatenate([np.asarray(tree, dtype=np.int64) for tree in trees]),
        taken=taken,
    )


def _continues(prefix: Prefix, before: Prefix) -> bool:
    count = len(before.steps)
    return (
        prefix.question == before.question
        and len(prefix.steps) >= count
        and prefix.steps[:count] == before.steps
    )
