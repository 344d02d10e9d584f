"""The nano PRMs: a trunk with the head of one of three published formats, trained where its adapter reads scores.

The adapter (a plugin of `prmcal.registry.prms`) writes the text of a prefix, and converts the outputs of the head to
log-odds of success.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model, Qwen2PreTrainedModel

from prmcal.registry.models.architectures import Qwen2ReasonEval
from prmcal.registry.prms.token_tree import build_token_tree
from prmcal.registry.prms.transformers import TransformersPRM
from tools.nano_training.model import SolverAndJudge
from tools.nano_training.token_trees import IGNORED, Example, Judged

FITS = "A nano prefix is shorter than the context of every PRM."


@dataclass(frozen=True)
class Format:
    """The format of a PRM.

    Attributes
    ----------
    plugin : str
        The PRM plugin that reads it.
    outputs : int
        The outputs of a linear head: '+' and '-', or negative, neutral and positive. 0 stands for the head of
        Qwen2.5-Math-PRM, which the verifier has already.
    negative : int
        The index of the output for failure.
    """

    plugin: str
    outputs: int
    negative: int


FORMATS = {
    "prm": Format("qwen", outputs=0, negative=0),
    "shepherd": Format("shepherd", outputs=2, negative=1),
    "reasoneval": Format("reasoneval", outputs=3, negative=0),
}


class Judge(Qwen2PreTrainedModel):
    """A trunk and a head, which learn scores, and to write in the format of the adapter."""

    def __init__(self, config: Qwen2Config, head: nn.Module, adapter: TransformersPRM) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.head = head
        self.log_odds = adapter.log_odds
        self.post_init()

    @classmethod
    def from_verifier(cls, source: SolverAndJudge, judge_format: Format, adapter: TransformersPRM) -> Judge:
        """Return a judge with the trunk of the verifier, and with its head or a new linear one."""
        width, outputs = source.config.hidden_size, judge_format.outputs
        judge = cls(source.config, nn.Linear(width, outputs, bias=False) if outputs else source.score, adapter)
        judge.model.load_state_dict(source.model.state_dict())
        return judge

    @property
    def last_layer(self) -> Any:
        """The last layer of the head."""
        return self.head[-1] if isinstance(self.head, nn.Sequential) else self.head

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
        is_taught, is_scored = targets != IGNORED, scores >= 0
        loss = hidden.sum() * 0
        if is_taught.any():
            logits = functional.linear(hidden[is_taught], self.model.embed_tokens.weight)
            loss = loss + functional.cross_entropy(logits.float(), targets[is_taught])
        if is_scored.any():
            log_odds = self.log_odds(self.head(hidden[is_scored]).float())
            loss = loss + functional.binary_cross_entropy_with_logits(log_odds, scores[is_scored])
        return {"loss": loss}


def written(adapter: TransformersPRM, question: str, steps: Sequence[str]) -> Example:
    """Return the example in which the trunk learns to write a chain, in the format of an adapter."""
    start = adapter.prefix_ids(question, ())
    ids = adapter.prefix_ids(question, tuple(steps))
    assert start is not None and ids is not None, FITS
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(start, ids, strict=False)))
    targets = np.full(len(ids), IGNORED, dtype=np.int64)
    targets[shared - 1 : -1] = ids[shared:]
    nothing = np.full(len(ids), -1, dtype=np.float32)
    return Example(build_token_tree([ids]), targets, nothing, nothing)


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


def save_judge(judge: Judge, judge_format: Format, tokenizer: Any, folder: Path) -> None:
    """Write a PRM in bfloat16, with the class and the keys of its format and a Qwen2 trunk."""
    if judge_format.plugin == "qwen":
        _save_in_qwens_format(judge, folder)
    else:
        _save_with_linear_head(judge, judge_format.plugin, tokenizer, folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)


def _save_in_qwens_format(judge: Judge, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name.replace("head.", "score."): value.to(torch.bfloat16).contiguous()
        for name, value in judge.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    judge.config.save_pretrained(folder)
    path = folder / "config.json"
    configuration = json.loads(path.read_text())
    configuration |= {"architectures": ["Qwen2ForProcessRewardModel"], "num_labels": 2, "dtype": "float32"}
    configuration["use_cache"] = True
    for derived in ("id2label", "label2id"):
        configuration.pop(derived, None)
    path.write_text(json.dumps(configuration, indent=2, sort_keys=True) + "\n")


def _save_with_linear_head(judge: Judge, plugin: str, tokenizer: Any, folder: Path) -> None:
    configuration = Qwen2Config(**(judge.config.to_dict() | {"tie_word_embeddings": False, "use_cache": True}))
    weight = judge.last_layer.weight.detach()
    saved: Any
    if plugin == "shepherd":
        saved = Qwen2ForCausalLM(configuration)
        rows = judge.model.embed_tokens.weight.detach().clone()
        for answer, row in zip("+-", weight, strict=True):
            rows[tokenizer.convert_tokens_to_ids(answer)] = row
        saved.lm_head.weight.data.copy_(rows)
    else:
        saved = Qwen2ReasonEval(configuration)
        saved.score_head.weight.data.copy_(weight)
    saved.model.load_state_dict(judge.model.state_dict())
    saved.to(torch.bfloat16)
    saved.config.dtype = "float32"
    saved.save_pretrained(folder)
