"""The head of adaptive temperature scaling: a small transformer from states to temperatures, and its training."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.networks import Trained, train
from prmcal.registry.contracts.data import HiddenStates, StateRows
from prmcal.registry.prms.token_tree import ROOT, TokenTree, collate_token_trees, renumbered

LARGEST_TEMPERATURE = 100.0
"""Temperatures lie in [1 / LARGEST_TEMPERATURE, LARGEST_TEMPERATURE], as in the calibrator ``temperature``."""

_LIMIT = math.log(LARGEST_TEMPERATURE)
_FARTHEST_START = 0.9
"""Share of the limit within which training starts. Nearer to the limit, gradients almost vanish."""

_ROTARY_BASE = 10_000.0
_NORM_EPSILON = 1e-6


@dataclass(frozen=True)
class QuestionTree:
    """Some prefixes of one question, with the nodes on their paths."""

    root: int
    """The forest's node of the question's first token. Trees of the same question have the same root."""
    rows: Ints
    """The numbers of the prefixes in the forest."""
    tree: TokenTree
    """The nodes. Its `input_ids` are node numbers of the forest, and its `leaves` belong to `rows`."""


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


def _path(leaf: int, parents: list[int], path_nodes: dict[int, int]) -> list[int]:
    """The nodes from a leaf upwards, to the root or to the last one before a node in `path_nodes`."""
    path = []
    node = leaf
    while node != ROOT and node not in path_nodes:
        path.append(node)
        node = parents[node]
    return path


def _question_tree(rows: list[int], depths: dict[int, int], features: HiddenStates) -> QuestionTree:
    nodes = np.array(sorted(depths), dtype=np.int64)
    places = np.array([depths[node] for node in nodes.tolist()], dtype=np.int64)
    tree = TokenTree(nodes, places, *renumbered(nodes, features.parents[nodes], features.leaves[rows]))
    return QuestionTree(int(nodes[0]), np.array(rows, dtype=np.int64), tree)


class TemperatureHead(nn.Module):
    """Decoder blocks over the PRM's states that predict the logarithm of a temperature at every token.

    `states_width` is the width of the PRM's states. The other arguments are the width of this head, and the numbers of
    its blocks and its attention heads.
    """

    mean: Tensor
    scale: Tensor
    """Mean and standard deviation that standardise the states. Of shape (states_width,)."""

    def __init__(self, states_width: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(states_width))
        self.register_buffer("scale", torch.ones(states_width))
        self.project = nn.Linear(states_width, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.output = nn.Linear(width, 1)

    def forward(self, states: Tensor, position_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return log T at every token, of shape (B, L), for states of shape (B, L, states_width).

        `position_ids` and `attention_mask` come from :func:`prmcal.registry.prms.token_tree.collate_token_trees`.
        """
        hidden = self.project((states - self.mean) / self.scale)
        for block in self.blocks:
            hidden = block(hidden, position_ids, attention_mask)
        unbounded: Tensor = self.output(self.norm(hidden))[..., 0]
        return _LIMIT * torch.tanh(unbounded / _LIMIT)

    def set_temperature(self, temperature: float) -> None:
        """Let a new head, whose last weights are zero, predict `temperature` everywhere.

        Temperatures near the bounds are moved away from them.
        """
        bounded = min(max(math.log(temperature) / _LIMIT, -_FARTHEST_START), _FARTHEST_START)
        with torch.no_grad():
            self.output.bias.fill_(_LIMIT * math.atanh(bounded))


class _Block(nn.Module):
    """A decoder block as in Llama: attention with rotary positions, then a gated layer, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        inner = 8 * width // 3
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.gated_norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: Tensor, position_ids: Tensor, attention_mask: Tensor) -> Tensor:
        projected = self.query_key_value(self.attention_norm(hidden))
        query, key, value = projected.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            _rotated(query, position_ids), _rotated(key, position_ids), value, attn_mask=attention_mask
        )
        hidden = hidden + self.attention_output(attended.transpose(1, 2).flatten(-2))
        normed = self.gated_norm(hidden)
        added: Tensor = hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return added


def _rotated(vectors: Tensor, position_ids: Tensor) -> Tensor:
    """Rotary position embedding of vectors of shape (B, heads, L, size)."""
    half = vectors.shape[-1] // 2
    frequencies = _ROTARY_BASE ** (-torch.arange(half, dtype=vectors.dtype) / half)
    angles = position_ids[:, None, :, None] * frequencies
    left, right = vectors.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


def make_head(mean: Floats, scale: Floats, width: int, layers: int, heads: int, seed: int) -> TemperatureHead:
    """Return a head that predicts T = 1 everywhere, with inner weights that depend on `seed` alone.

    The last layer is zero, so that the first prediction is the PRM's own reward.
    """
    with torch.device("meta"):  # Here torch draws no random numbers.
        head = TemperatureHead(len(mean), width, layers, heads)
    head.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)
            else:
                parameter.zero_()
        for module in head.modules():
            if isinstance(module, nn.RMSNorm):
                module.weight.fill_(1.0)
        head.output.weight.zero_()
        head.mean.copy_(torch.tensor(mean))
        head.scale.copy_(torch.tensor(scale))
    return head


def log_temperatures_of_rows(head: TemperatureHead, states: StateRows, trees: Sequence[QuestionTree]) -> Tensor:
    """Return log T of the trees' prefixes, in the order of the trees and of their rows, of shape (prefixes,).

    The trees are one batch. The result has the type of the head's weights.
    """
    dtype = head.output.weight.dtype
    padding = trees[0].root  # The padding needs some state of the batch.
    inputs = collate_token_trees([tree.tree for tree in trees], pad_id=padding, dtype=dtype)
    nodes = inputs.pop("input_ids")
    everywhere = head(torch.from_numpy(states[nodes.numpy()]).to(dtype), **inputs)
    rows = np.repeat(np.arange(len(trees)), [len(tree.rows) for tree in trees])
    leaves = np.concatenate([tree.tree.leaves for tree in trees])
    at_leaves: Tensor = everywhere[torch.from_numpy(rows), torch.from_numpy(leaves)]
    return at_leaves


def train_head(
    head: TemperatureHead, features: HiddenStates, trees: Sequence[QuestionTree], k: Ints, n: Ints, calibrator: Trained
) -> int:
    """Minimise the cross-entropy of k of n in batches of whole questions, where every follow-up has the same weight.

    Return the epoch whose weights are kept. Raise the errors of :func:`prmcal.registry.calibrators.networks.train`.
    """
    random = np.random.default_rng(calibrator.seed)
    by_question: dict[int, list[QuestionTree]] = {}
    for tree in trees:
        by_question.setdefault(tree.root, []).append(tree)
    order = [list(by_question.values())[index] for index in random.permutation(len(by_question))]
    # With few questions, none is held out.
    held_out_count = math.floor(len(order) * calibrator.held_out)
    questions, held_out = order[held_out_count:], order[:held_out_count]
    count = math.ceil(len(questions) / calibrator.batch_size)
    follow_ups = int(n[_rows([tree for question_trees in questions for tree in question_trees])].sum())
    logit, successes, counts = (torch.tensor(array) for array in (features.logit, k, n))

    def loss_of(batch: Sequence[QuestionTree]) -> Tensor:
        """The negative log-likelihood of the batch's follow-ups."""
        rows = torch.from_numpy(_rows(batch))
        scaled = logit[rows] * torch.exp(-log_temperatures_of_rows(head, features.states, batch))
        failures = counts[rows] - successes[rows]
        return (successes[rows] * functional.softplus(-scaled) + failures * functional.softplus(scaled)).sum()

    def batches() -> Iterator[tuple[list[QuestionTree], float]]:
        order = random.permutation(len(questions))
        for start in range(0, len(order), calibrator.batch_size):
            indices = order[start : start + calibrator.batch_size]
            yield [tree for index in indices for tree in questions[index]], 1 / count

    return train(
        head,
        "temperature head",
        calibrator,
        lambda batch: loss_of(batch) * (count / follow_ups),
        batches,
        count,
        (lambda: float(sum(loss_of(question).item() for question in held_out))) if held_out else None,
    )


def _rows(trees: Sequence[QuestionTree]) -> Ints:
    return np.concatenate([tree.rows for tree in trees])
