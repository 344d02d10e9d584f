"""The nano twins of the other two PRM formats: a trunk of the first one, asked in another way under another head.

A twin reads the text that its adapter (`prmcal.registry.prms.shepherd`, `prmcal.registry.prms.reasoneval`) writes for a
model of its format. It is trained where the adapter reads its score, on the labels and the drill of the reward model in
Qwen's format.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model, Qwen2PreTrainedModel

from prmcal.registry.models.reasoneval import Qwen2ReasonEval
from prmcal.registry.nano.problems import Problem, longest, solution_steps
from prmcal.registry.nano.training.drill import draw_shape, dwelling
from prmcal.registry.nano.training.examples import IGNORED, Example, Judged
from prmcal.registry.nano.training.facts import Facts
from prmcal.registry.nano.training.labels import Labelled
from prmcal.registry.nano.training.reward_model import (
    LABELLED_SHARE,
    WRITING_SHARE,
    draw_labelled,
    drilled_chains,
    labelled_chain,
)
from prmcal.registry.prms.token_tree import build_token_tree
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["NEGATIVE", "OUTPUTS", "ROUNDS", "Format", "Twin", "TwinExamples", "save_twin"]

Format = Literal["shepherd", "reasoneval"]
OUTPUTS: Mapping[Format, int] = {"shepherd": 2, "reasoneval": 3}
"""What each format's head gives: '+' and '-', or negative, neutral and positive."""
NEGATIVE: Mapping[Format, int] = {"shepherd": 1, "reasoneval": 0}
"""Which of them speaks against success."""
BATCH_TOKENS = 3000
FITS = "A nano prefix is far shorter than any PRM's context."


@dataclass(frozen=True)
class Round:
    """One warm-up and cosine decay, and the share of drilled batches whose chains go on after their mistake."""

    steps: int
    learning_rate: float
    remember: float


ROUNDS = (Round(600, 6e-4, 0.4), Round(350, 3e-4, 0.7))
DWELLING = 0.75
"""Share of the chains to write that dwell on what the trunk gets wrong."""


class Twin(Qwen2PreTrainedModel):  # type: ignore[no-untyped-call]  # transformers is half typed
    """A trunk and a linear head whose outputs an adapter turns into log-odds of success."""

    def __init__(
        self, config: Qwen2Config, outputs: int, log_odds: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.head = nn.Linear(config.hidden_size, outputs, bias=False)
        self.log_odds = log_odds
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        targets: torch.Tensor,
        scores: torch.Tensor,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        """The losses over a batch of trees.

        `scores` (B, L) is the chance of success where one is read, else -1; `targets` (B, L) the next token to write,
        with the embeddings as output layer, else -100.
        """
        hidden = self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        taught, read = targets != IGNORED, scores >= 0
        language = judge = hidden.sum() * 0
        if taught.any():
            written = functional.linear(hidden[taught], self.model.embed_tokens.weight)
            language = functional.cross_entropy(written.float(), targets[taught])
        if read.any():
            logits = self.log_odds(self.head(hidden[read]).float())
            judge = functional.binary_cross_entropy_with_logits(logits, scores[read])
        return {"loss": language + judge, "language": language.detach(), "judge": judge.detach()}


@dataclass(frozen=True)
class TwinExamples:
    """Draws a twin's batches.

    Attributes
    ----------
    adapter : TransformersPRM
        Turns prefixes into token ids.
    labels : dict
        As `group_by_question` gives them.
    facts : Facts
        What the drill dwells on.
    """

    adapter: TransformersPRM
    labels: dict[int, list[list[Labelled]]]
    facts: Facts

    def draw(self, seed: int, number: int, remember: float) -> Sequence[Example]:
        """The examples of one batch; `remember` as in `Round`."""
        generator = random.Random(f"{seed} twin {number}")
        kind = generator.random()
        if LABELLED_SHARE <= kind < LABELLED_SHARE + WRITING_SHARE:
            return self._writing_batch(generator)
        if kind < LABELLED_SHARE:
            return [
                self._example(rows[0].question, map(labelled_chain, rows))
                for rows in draw_labelled(self.labels, generator)
            ]
        return [
            self._example(problem.text, chains)
            for problem, chains in drilled_chains(
                generator, self.facts, remember=generator.random() < remember
            )
        ]

    def _writing_batch(self, generator: random.Random) -> Sequence[Example]:
        """Right chains to write in the twin's own format: what it cannot write it cannot judge."""
        dataset, level = draw_shape(generator)
        return [
            self._written(dwelling(self.facts, generator, dataset, level, DWELLING))
            for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level))))
        ]

    def _written(self, problem: Problem) -> Example:
        asked = self.adapter.prefix_ids(problem.text, ())
        whole = self.adapter.prefix_ids(problem.text, tuple(solution_steps(problem)))
        assert asked is not None and whole is not None, FITS
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(asked, whole, strict=False)))
        targets = np.full(len(whole), IGNORED, dtype=np.int64)
        targets[shared - 1 : -1] = whole[shared:]
        nothing = np.full(len(whole), -1, dtype=np.float32)
        return Example(build_token_tree([whole]), targets, nothing, nothing)

    def _example(self, question: str, chains: Any) -> Example:
        marked: dict[tuple[int, ...], float] = {}
        chain: Judged
        for chain in chains:
            for count, chance in chain.scores.items():
                ids = self.adapter.prefix_ids(question, chain.steps[:count])
                assert ids is not None, FITS
                marked.setdefault(ids, chance)
        tree = build_token_tree(list(marked))
        scores = np.full(len(tree), -1, dtype=np.float32)
        scores[tree.leaves] = list(marked.values())
        nothing = np.full(len(tree), IGNORED, dtype=np.int64)
        return Example(tree, nothing, scores, np.full(len(tree), -1, dtype=np.float32))


def save_twin(twin: Twin, twin_format: Format, tokenizer: Any, folder: Path) -> None:
    """Write a twin in bfloat16 with the classes and keys of its format, on a Qwen2 trunk."""
    configuration = Qwen2Config(**(twin.config.to_dict() | {"tie_word_embeddings": False, "use_cache": True}))
    saved: Any
    if twin_format == "shepherd":
        saved = Qwen2ForCausalLM(configuration)  # type: ignore[no-untyped-call]
        rows = twin.model.embed_tokens.weight.detach().clone()
        for answer, row in zip("+-", twin.head.weight.detach(), strict=True):
            rows[tokenizer.convert_tokens_to_ids(answer)] = row
        saved.lm_head.weight.data.copy_(rows)
    else:
        saved = Qwen2ReasonEval(configuration)
        saved.score_head.weight.data.copy_(twin.head.weight.detach())
    saved.model.load_state_dict(twin.model.state_dict())
    saved.to(torch.bfloat16)
    saved.config.dtype = "float32"
    saved.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)
