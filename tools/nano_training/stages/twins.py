"""The twins: nano PRMs in two other formats. A twin starts from the trunk of the first PRM and has another head.

A twin reads the text that its adapter (`prmcal.registry.prms.answers`, `prmcal.registry.prms.heads`) writes for
models of its format. It is trained at the positions where the adapter reads scores, on the labels and the drill of the
reward model in Qwen's format.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model, Qwen2PreTrainedModel

from prmcal.registry.models.architectures import Qwen2ReasonEval
from prmcal.registry.nano.problems import longest, solution_steps
from prmcal.registry.prms.token_tree import build_token_tree
from prmcal.registry.prms.transformers import TransformersPRM
from tools.nano_training.examples.facts import Facts
from tools.nano_training.examples.labels import Labelled
from tools.nano_training.examples.token_trees import IGNORED, Example, Judged
from tools.nano_training.stages.drill import draw_focused_problem, draw_shape
from tools.nano_training.stages.reward_model import (
    LABELLED_SHARE,
    WRITING_SHARE,
    draw_labelled,
    drilled_chains,
    labelled_chain,
)

Format = Literal["shepherd", "reasoneval"]
OUTPUTS: Mapping[Format, int] = {"shepherd": 2, "reasoneval": 3}
"""The number of outputs of each format's head: '+' and '-', or negative, neutral and positive."""
NEGATIVE: Mapping[Format, int] = {"shepherd": 1, "reasoneval": 0}
"""The index of the output for failure."""
BATCH_TOKENS = 3000
FITS = "A nano prefix is shorter than the context of every PRM."


@dataclass(frozen=True)
class Round:
    """One training run. `remember` is the share of drilled batches whose chains continue after their mistake."""

    steps: int
    learning_rate: float
    remember: float


ROUNDS = (Round(600, 6e-4, 0.4), Round(350, 3e-4, 0.7))
FOCUSED_SHARE = 0.75
"""The share of chains to write that are drawn for the facts that the trunk gets wrong."""


class Twin(Qwen2PreTrainedModel):
    """A trunk and a linear head. An adapter converts the outputs of the head to log-odds of success."""

    def __init__(
        self, config: Qwen2Config, outputs: int, log_odds: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.head = nn.Linear(config.hidden_size, outputs, bias=False)
        self.log_odds = log_odds
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        targets: torch.Tensor,
        scores: torch.Tensor,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        """Compute the losses over a batch of trees.

        `scores` (B, L) is the probability of success to predict at each position, or -1 for none. `targets` (B, L) is
        the next token to write, or -100 for none. The embeddings are the output layer of the language model.
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
        Converts prefixes to token ids.
    labels : dict
        The return value of `group_by_question`.
    facts : Facts
        The facts that the drill's problems are drawn for.
    """

    adapter: TransformersPRM
    labels: dict[int, list[list[Labelled]]]
    facts: Facts

    def draw(self, seed: int, number: int, remember: float) -> Sequence[Example]:
        """Draw one batch. See `Round` for `remember`."""
        generator = random.Random(f"{seed} twin {number}")
        kind = generator.random()
        if LABELLED_SHARE <= kind < LABELLED_SHARE + WRITING_SHARE:
            return self._writing_batch(generator)
        if kind < LABELLED_SHARE:
            return [
                scored(self.adapter, rows[0].question, map(labelled_chain, rows))
                for rows in draw_labelled(self.labels, generator)
            ]
        return [
            scored(self.adapter, problem.text, chains)
            for problem, chains in drilled_chains(
                generator, self.facts, remember=generator.random() < remember
            )
        ]

    def _writing_batch(self, generator: random.Random) -> Sequence[Example]:
        """Draw right chains to write in the twin's own format. A twin cannot judge what it cannot write."""
        dataset, level = draw_shape(generator)
        problems = [
            draw_focused_problem(self.facts, generator, dataset, level, FOCUSED_SHARE)
            for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level))))
        ]
        return [written(self.adapter, problem.text, solution_steps(problem)) for problem in problems]


def written(adapter: TransformersPRM, question: str, steps: Sequence[str]) -> Example:
    """Return the example in which the trunk learns to write a chain, in the format of an adapter."""
    asked = adapter.prefix_ids(question, ())
    whole = adapter.prefix_ids(question, tuple(steps))
    assert asked is not None and whole is not None, FITS
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(asked, whole, strict=False)))
    targets = np.full(len(whole), IGNORED, dtype=np.int64)
    targets[shared - 1 : -1] = whole[shared:]
    nothing = np.full(len(whole), -1, dtype=np.float32)
    return Example(build_token_tree([whole]), targets, nothing, nothing)


def scored(adapter: TransformersPRM, question: str, chains: Iterable[Judged]) -> Example:
    """Return the example in which the head learns the scores of chains, in the format of an adapter."""
    marked: dict[tuple[int, ...], float] = {}
    for chain in chains:
        for count, chance in chain.scores.items():
            ids = adapter.prefix_ids(question, chain.steps[:count])
            assert ids is not None, FITS
            marked.setdefault(ids, chance)
    tree = build_token_tree(list(marked))
    scores = np.full(len(tree), -1, dtype=np.float32)
    scores[tree.leaves] = list(marked.values())
    nothing = np.full(len(tree), IGNORED, dtype=np.int64)
    return Example(tree, nothing, scores, np.full(len(tree), -1, dtype=np.float32))


def load_twin(twin_format: Format, folder: Path, log_odds: Callable[[torch.Tensor], torch.Tensor]) -> Twin:
    """Read what `save_twin` wrote, in float32."""
    saved: Any
    if twin_format == "shepherd":
        from transformers import AutoTokenizer

        saved = Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32)
        rows = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["+", "-"])
        head = saved.lm_head.weight[rows]
    else:
        saved = Qwen2ReasonEval.from_pretrained(folder, dtype=torch.float32)
        head = saved.score_head.weight
    twin = Twin(saved.config, OUTPUTS[twin_format], log_odds)
    twin.model.load_state_dict(saved.model.state_dict())
    twin.head.weight.data.copy_(head.detach())
    return twin


def save_twin(twin: Twin, twin_format: Format, tokenizer: Any, folder: Path) -> None:
    """Write a twin in bfloat16 with the class and keys of its format and a Qwen2 trunk."""
    configuration = Qwen2Config(**(twin.config.to_dict() | {"tie_word_embeddings": False, "use_cache": True}))
    saved: Any
    if twin_format == "shepherd":
        saved = Qwen2ForCausalLM(configuration)
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
