"""Training examples: token trees with targets for the language model and for the judge head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.prms.token_tree import TokenTree, build_token_tree, collate_token_trees
from prmcal.steps import STEP_SEPARATOR
from tools.nano_training.chains import NoisyChain
from tools.nano_training.tokenizer import MARKER, SYSTEM

if TYPE_CHECKING:
    import torch


IGNORED = -100


@dataclass(frozen=True)
class Judged:
    """A chain, with the targets for training.

    Attributes
    ----------
    steps : tuple of str
        The steps of the chain.
    taught : tuple of bool
        Whether the language model learns to write each step.
    scores : dict of int to float
        The judge's targets: for a number of steps, the probability in [0, 1] at the marker after them.
    complete : bool
        Whether the chain is finished, and thus ends with the end-of-turn token.
    """

    steps: tuple[str, ...]
    taught: tuple[bool, ...]
    scores: dict[int, float] = field(default_factory=dict)
    complete: bool = True


def judged(chain: NoisyChain, complete: bool, teach_wrong: bool = False) -> Judged:
    """Label each step of a chain with 1.0 if all steps so far are right, else 0.0.

    With `teach_wrong` the language model also learns to write the steps with mistakes, that is, the right results of
    wrong numbers. If the right chain comes first in the same tree, the mistaken token itself is not a target.
    """
    return Judged(
        steps=chain.steps,
        taught=tuple(teach_wrong or not wrong for wrong in chain.wrong),
        scores={count: float(chain.sound(count)) for count in range(1, len(chain.steps) + 1)},
        complete=complete,
    )


@dataclass(frozen=True)
class Example:
    """The token tree of one question, with its targets.

    Attributes
    ----------
    tree : TokenTree
        The tokens of the question, the chains and the markers.
    targets : ndarray of int64, shape (nodes,)
        The next token to predict at each node, or -100 for none.
    scores : ndarray of float32, shape (nodes,)
        The probability to predict at each marker node, and -1 at all other nodes.
    hints : ndarray of float32, shape (nodes,)
        1 on the first chain of the example, which is right, 0 on branches that leave it, and -1 on the question and the
        markers.
    """

    tree: TokenTree
    targets: NDArray[np.int64]
    scores: NDArray[np.float32]
    hints: NDArray[np.float32]


class Encoder:
    """Converts questions and chains to examples, with the tokenizer in a folder."""

    def __init__(self, folder: Path | str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.marker: int = self.tokenizer.get_vocab()[MARKER]
        self.end: int = self.tokenizer.eos_token_id
        self.pad: int = self.tokenizer.pad_token_id
        self._cache: dict[str, list[int]] = {}

    def prompt(self, question: str, system: bool) -> str:
        """Return the text before the first step. Reward models read a system message, policies do not."""
        messages = [{"role": "system", "content": SYSTEM}] * system + [{"role": "user", "content": question}]
        text: str = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return text

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text. They are cached, because the same steps occur often."""
        token_ids = self._cache.get(text)
        if token_ids is None:
            if len(self._cache) > 200_000:
                self._cache.clear()
            token_ids = self._cache[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return token_ids

    def example(self, question: str, chains: Iterable[Judged], system: bool, first_only: bool = False) -> Example:
        """Build the tree of a question's chains.

        Where several chains share a prefix, the next token of the first chain is the target. Hints require that the
        first chain is right. With `first_only`, only the first token of a branch has a hint: the mistake itself.
        """
        start = self.tokenizer(self.prompt(question, system), add_special_tokens=False)["input_ids"]
        separator = self.ids(STEP_SEPARATOR)
        sequences: list[list[int]] = []
        plans: list[tuple[list[bool], dict[int, float]]] = []
        for chain in chains:
            tokens = list(start)
            taught = [False] * len(tokens)
            scores: dict[int, float] = {}
            for index, (step, teach) in enumerate(zip(chain.steps, chain.taught, strict=True)):
                piece = (separator if index else []) + self.ids(step)
                tokens += piece
                taught += [teach] * len(piece)
                if index + 1 in chain.scores:
                    scores[len(tokens) - 1] = chain.scores[index + 1]
            if chain.complete:
                tokens.append(self.end)
                taught.append(not chain.taught or chain.taught[-1])
            sequences.append(tokens)
            plans.append((taught, scores))
        tree = build_token_tree(sequences)
        hints = np.full(len(tree), -1, dtype=np.float32)
        hints[len(start) :] = 0
        hints[len(start) : len(sequences[0])] = 1
        if first_only:
            hints[(hints == 0) & (hints[tree.parents] == 0)] = -1
        return attach(tree, sequences, plans, self.marker, hints)


def attach(
    tree: TokenTree,
    sequences: list[list[int]],
    plans: list[tuple[list[bool], dict[int, float]]],
    marker: int,
    hints: NDArray[np.float32],
) -> Example:
    """Add the markers to the tree of the chains, and set the targets of all nodes."""
    targets = np.full(len(tree), IGNORED, dtype=np.int64)
    markers: dict[int, float] = {}
    for leaf, tokens, (taught, scores) in zip(tree.leaves, sequences, plans, strict=True):
        path = [int(leaf)]
        while tree.parents[path[-1]] != -1:
            path.append(int(tree.parents[path[-1]]))
        path.reverse()
        for position in range(len(tokens) - 1):
            if taught[position + 1] and targets[path[position]] == IGNORED:
                targets[path[position]] = tokens[position + 1]
        for position, score in scores.items():
            markers.setdefault(path[position], score)
    nodes = np.array(list(markers), dtype=np.int64)
    extended = TokenTree(
        input_ids=np.concatenate([tree.input_ids, np.full(len(nodes), marker)]),
        position_ids=np.concatenate([tree.position_ids, tree.position_ids[nodes] + 1]),
        parents=np.concatenate([tree.parents, nodes]),
        leaves=np.arange(len(tree), len(tree) + len(nodes)),
    )
    scores_by_node = np.full(len(extended), -1, dtype=np.float32)
    scores_by_node[len(tree) :] = list(markers.values())
    beside_markers = np.full(len(nodes), -1, dtype=np.float32)
    return Example(
        tree=extended,
        targets=np.concatenate([targets, np.full(len(nodes), IGNORED)]),
        scores=scores_by_node,
        hints=np.concatenate([hints, beside_markers]),
    )


def collate(examples: Sequence[Example], pad: int, dtype: torch.dtype | None = None) -> dict[str, Any]:
    """Pad examples to one batch: the tensors of the trees, and `targets`, `scores` and `hints` of shape (B, L)."""
    import torch

    batch: dict[str, Any] = collate_token_trees([example.tree for example in examples], pad, dtype)
    shape = batch["input_ids"].shape
    targets = np.full(shape, IGNORED, dtype=np.int64)
    scores = np.full(shape, -1, dtype=np.float32)
    hints = np.full(shape, -1, dtype=np.float32)
    for row, example in enumerate(examples):
        targets[row, : len(example.targets)] = example.targets
        scores[row, : len(example.scores)] = example.scores
        hints[row, : len(example.hints)] = example.hints
    labels = {"targets": targets, "scores": scores, "hints": hints}
    return batch | {name: torch.from_numpy(values) for name, values in labels.items()}
