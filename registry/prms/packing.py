"""Group trajectories into token trees, and token trees into the batches of forward passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from prmcal.registry.prms.token_tree import shared_length, token_tree_size

__all__ = ["TokenizedTrajectory", "batch_by_size", "pack_trajectories", "whole_sequences"]


@dataclass(frozen=True)
class TokenizedTrajectory:
    """The prefixes of one trajectory as token ids. They always go into the same token tree.

    Attributes
    ----------
    prefixes : tuple of (tuple of int or None)
        The token ids of each prefix, the shortest prefix first; None for a prefix that is too long for the PRM.
    size : int
        The number of nodes in the token tree of these prefixes.
    """

    prefixes: tuple[tuple[int, ...] | None, ...]
    size: int

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
    """Pack trajectories into token trees, and trees of similar size into batches.

    Parameters
    ----------
    trajectories : sequence of TokenizedTrajectory
        In an order in which neighbours share the most tokens.
    tree_tokens : int
        A tree takes no further trajectory beyond this number of nodes. A longer trajectory has a tree of its own.
    batch_tokens, least_share
        As in :func:`batch_by_size`.

    Returns
    -------
    list of lists of lists of int
        Batches of trees of indices into `trajectories`.
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
    """Put token trees of similar size into the same batch, the largest trees first.

    Parameters
    ----------
    sizes : sequence of int
        The number of nodes in each tree.
    batch_tokens : int
        The largest size of a batch, padding included. A larger tree has a batch of its own.
    least_share : float, default=0
        Share in [0, 1] of a batch's largest tree. A smaller tree goes into another batch, where it needs less padding.

    Returns
    -------
    list of lists of int
        Batches of indices into `sizes`.
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


def whole_sequences(read: Sequence[tuple[int, ...]]) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """Map each sequence to one that begins with it and is not the beginning of another. One pass computes both."""
    ordered = sorted(set(read), reverse=True)
    whole = {ordered[0]: ordered[0]}
    # In this order, sequences that begin with another one come right before it.
    for longer, shorter in pairwise(ordered):
        whole[shorter] = whole[longer] if longer[: len(shorter)] == shorter else shorter
    return whole
