"""Cut a forest of hidden states into trees for a transformer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.prms.token_tree import ROOT, TokenTree

__all__ = ["QuestionTree", "cut_trees"]


@dataclass(frozen=True)
class QuestionTree:
    """Some prefixes of one question, with the nodes on their paths.

    Attributes
    ----------
    root : int
        The forest's node of the question's first token. Trees of the same question have the same root.
    rows : ndarray of int64, shape (prefixes,)
        The numbers of the prefixes in the forest.
    tree : TokenTree
        The nodes. Its `input_ids` are node numbers of the forest, and its `leaves` belong to `rows`.
    """

    root: int
    rows: NDArray[np.int64]
    tree: TokenTree


def cut_trees(features: HiddenStates, tree_nodes: int) -> list[QuestionTree]:
    """Cut a forest into trees of at most `tree_nodes` nodes. A longer path is a tree by itself.

    Attention costs the square of a tree's size, so small trees are cheaper. A node that several trees share is in each
    of them. A node that is on no prefix's path is in no tree.
    """
    parents, leaves = features.parents.tolist(), features.leaves.tolist()
    trees: list[QuestionTree] = []
    depths: dict[int, int] = {}
    rows: list[int] = []
    # A forest is built prefix by prefix, so neighbours in this order share the most nodes.
    for row in np.argsort(features.leaves, kind="stable").tolist():
        path = _path(leaves[row], parents, depths)
        if path and (parents[path[-1]] == ROOT or len(depths) + len(path) > tree_nodes):
            if rows:
                trees.append(_question_tree(rows, depths, features))
            depths, rows = {}, []
            path = _path(leaves[row], parents, depths)
        for node in reversed(path):
            depths[node] = depths.get(parents[node], -1) + 1
        rows.append(row)
    if rows:
        trees.append(_question_tree(rows, depths, features))
    return trees


def _path(leaf: int, parents: list[int], known: dict[int, int]) -> list[int]:
    """The nodes from a leaf upwards, to the root or to just below the first known node."""
    path = []
    node = leaf
    while node != ROOT and node not in known:
        path.append(node)
        node = parents[node]
    return path


def _question_tree(rows: list[int], depths: dict[int, int], features: HiddenStates) -> QuestionTree:
    nodes = np.array(sorted(depths), dtype=np.int64)
    parents = features.parents[nodes]
    tree = TokenTree(
        input_ids=nodes,
        position_ids=np.array([depths[node] for node in nodes.tolist()], dtype=np.int64),
        parents=np.where(parents == ROOT, ROOT, np.searchsorted(nodes, parents)),
        leaves=np.searchsorted(nodes, features.leaves[rows]),
    )
    return QuestionTree(int(nodes[0]), np.array(rows, dtype=np.int64), tree)
