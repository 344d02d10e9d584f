"""Training examples: token trees with targets for the language model and for the judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.nano.training.chains import Chain
from prmcal.registry.nano.training.tokenizer import MARKER, SYSTEM
from prmcal.registry.prms.token_tree import TokenTree, build_token_tree, collate_token_trees

if TYPE_CHECKING:
    import torch

__all__ = ["IGNORED", "Encoder", "Example", "Judged", "collate", "judged"]

IGNORED = -100


@dataclass(frozen=True)
class Judged:
    """A chain and what is to be learnt from it.

    Attributes
    ----------
    steps : tuple of str
        The steps of the chain.
    taught : tuple of bool
        Which steps the language model learns to write.
    scores : dict of int to float
        Targets of the judge by length of the prefix: the chance in [0, 1] at the marker after so many steps.
    complete : bool
        Whether the chain ends here, so that the end-of-turn token is part of it.
    """

    steps: tuple[str, ...]
    taught: tuple[bool, ...]
    scores: dict[int, float] = field(default_factory=dict)
    complete: bool = True


def judged(chain: Chain, complete: bool, teach_wrong: bool = False) -> Judged:
    """A chain with the exact label "every step so far is right" after every step.

    With `teach_wrong` the language model also learns what follows a mistake within its step: the right result of the
    wrong numbers. The mistaken token itself is no target where the right chain comes first in the same tree.
    """
    return Judged(
        steps=chain.steps,
        taught=tuple(teach_wrong or not wrong for wrong in chain.wrong),
        scores={count: float(chain.sound(count)) for count in range(1, len(chain.steps) + 1)},
        complete=complete,
    )


@dataclass(frozen=True)
class Example:
    """One question's token tree.

    Attributes
    ----------
    tree : TokenTree
        Question, chains and markers.
    targets : ndarray of int64, shape (nodes,)
        The next token to predict at every node, or -100.
    scores : ndarray of float32, shape (nodes,)
        The chance to predict at marker nodes, -1 elsewhere.
    hints : ndarray of float32, shape (nodes,)
        Whether a mistake-free chain runs through the node: 1 on the example's first chain after the question, 0 on
        branches that leave it, -1 on the question and on markers.
    """

    tree: TokenTree
    targets: NDArray[np.int64]
    scores: NDArray[np.float32]
    hints: NDArray[np.float32]


class Encoder:
    """Turns questions and chains into examples, with the tokenizer of a folder."""

    def __init__(self, folder: Path | str) -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.marker: int = self.tokenizer.get_vocab()[MARKER]
        self.end: int = self.tokenizer.eos_token_id
        self.pad: int = self.tokenizer.pad_token_id
        self._cache: dict[str, list[int]] = {}

    def prompt(self, question: str, system: bool) -> str:
        """The text before the first step, with the reward models' system message or, as for a policy, without."""
        messages = [{"role": "system", "content": SYSTEM}] * system + [{"role": "user", "content": question}]
        text: str = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return text

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, remembered: steps recur."""
        found = self._cache.get(text)
        if found is None:
            if len(self._cache) > 200_000:
                self._cache.clear()
            found = self._cache[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def example(
        self,
        question: str,
        chains: Iterable[Judged],
        system: bool,
        hinted: bool = True,
        first_only: bool = False,
    ) -> Example:
        """Build the tree of a question's chains.

        Where two chains share a beginning, the first one's next token is the target. Hints need a first chain that
        is right; with `first_only` a branch has a hint at its first token alone, which is the mistake itself.
        """
        start = self.tokenizer(self.prompt(question, system), add_special_tokens=False)["input_ids"]
        separator = self.ids("\n\n")
        sequences: list[list[int]] = []
        plans: list[tuple[list[bool], dict[int, float]]] = []
        for chain in chains:
            tokens = list(start)
            taught = [False] * len(tokens)
            scores: dict[int, float] = {}
            if 0 in chain.scores:
                scores[len(tokens) - 1] = chain.scores[0]
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
        if hinted:
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
    """Add the markers to the tree of the chains, and lay out the targets."""
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
    """Pad examples to one batch: the trees' tensors, and `targets`, `scores` and `hints`, each (B, L)."""
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
