"""The nano twins of the other two PRM formats: the reward model's trunk, asked in another way under another head.

A twin reads what its adapter (`registry.prms.shepherd`, `registry.prms.reasoneval`) gives a model of its format to
read, and is trained where the adapter reads its score, on the labels that the first reward model had.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model, Qwen2PreTrainedModel

from registry.nano.problems import LENGTHS
from registry.nano.training.drill import dense_chains, dwelling
from registry.nano.training.examples import IGNORED, Example, Judged
from registry.nano.training.facts import Facts
from registry.nano.training.labels import Labelled
from registry.nano.training.reward_model import labelled_chain
from registry.prms.reasoneval_model import Qwen2ReasonEval
from registry.prms.token_tree import build_token_tree
from registry.prms.transformers import TransformersPRM

__all__ = ["LEARNING_RATE", "OUTPUTS", "STEPS", "Twin", "TwinExamples", "save_twin"]

Format = Literal["shepherd", "reasoneval"]
OUTPUTS: Mapping[Format, int] = {"shepherd": 2, "reasoneval": 3}
"""What each format's head gives: '+' and '-', or negative, neutral and positive."""
STEPS, LEARNING_RATE = 700, 6e-4
BATCH_TOKENS = 3000
LABELLED_SHARE = 0.6
"""Share of batches with Monte Carlo labels; the rest is the drill, marked only where the truth is known."""


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
        scores: torch.Tensor,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        """The loss over a batch of trees: `scores` (B, L) is the chance of success where one is read, else -1."""
        hidden = self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        read = scores >= 0
        logits = self.log_odds(self.head(hidden[read]).float())
        loss = functional.binary_cross_entropy_with_logits(logits, scores[read])
        return {"loss": loss, "language": torch.zeros(()), "judge": loss.detach()}


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

    def draw(self, seed: int, number: int) -> Sequence[Example]:
        """The examples of one batch."""
        generator = random.Random(f"{seed} twin {number}")
        if generator.random() < LABELLED_SHARE:
            length = generator.choice(sorted(self.labels))
            count = max(1, BATCH_TOKENS // (50 + 45 * length))
            chosen = generator.sample(self.labels[length], min(count, len(self.labels[length])))
            return [self._example(rows[0].question, map(labelled_chain, rows)) for rows in chosen]
        level = generator.choice((1, 2, 3, 4, 4, 5, 5))
        problems = [
            dwelling(self.facts, generator, level, 0.6)
            for _ in range(max(1, BATCH_TOKENS // (60 + 40 * LENGTHS[level])))
        ]
        return [
            self._example(problem.text, dense_chains(generator, problem, sound=False)) for problem in problems
        ]

    def _example(self, question: str, chains: Any) -> Example:
        marked: dict[tuple[int, ...], float] = {}
        chain: Judged
        for chain in chains:
            for count, chance in chain.scores.items():
                ids = self.adapter.prefix_ids(question, chain.steps[:count])
                assert ids is not None, "A nano prefix is far shorter than any PRM's context."
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
