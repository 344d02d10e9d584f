"""The architectures of ReasonEval, on transformers' own trunks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from transformers import (
    LlamaModel,
    LlamaPreTrainedModel,
    MistralModel,
    MistralPreTrainedModel,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Model,
    Qwen2PreTrainedModel,
)

__all__ = ["OUTPUTS", "REWARD_MODELS", "ReasonEvalModel", "score_outputs"]

OUTPUTS = 3
"""Negative, neutral, positive."""


def score_outputs(config: PreTrainedConfig) -> int:
    """Return the number of outputs of the score head: `score_dimension` (7B) or `score_dim` (34B)."""
    return int(getattr(config, "score_dimension", getattr(config, "score_dim", OUTPUTS)))


class ReasonEvalModel(PreTrainedModel):
    """A trunk with a linear score head to the logits of negative, neutral and positive.

    The weights are named ``model.*`` and ``score_head.*``, as in the published checkpoints. `use_bias` (7B) or `bias`
    (34B) in the configuration says whether the head has a bias. The published heads have none.
    """

    trunk: ClassVar[type[PreTrainedModel]]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["score_head"]  # noqa: RUF012

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.model = self.trunk(config)
        bias = bool(getattr(config, "use_bias", getattr(config, "bias", False)))
        self.score_head = torch.nn.Linear(config.hidden_size, OUTPUTS, bias=bias)
        self.post_init()

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Return the logits of the three classes at every token, of shape (batch, tokens, 3), float32."""
        hidden = self.model(**inputs).last_hidden_state
        scores: torch.Tensor = self.score_head(hidden.float())
        return scores


class MistralReasonEval(ReasonEvalModel, MistralPreTrainedModel):
    """ReasonEval-7B."""

    trunk = MistralModel


class LlamaReasonEval(ReasonEvalModel, LlamaPreTrainedModel):
    """ReasonEval-34B."""

    trunk = LlamaModel


class Qwen2ReasonEval(ReasonEvalModel, Qwen2PreTrainedModel):
    """ReasonEval's head on a Qwen2 trunk."""

    trunk = Qwen2Model


REWARD_MODELS: dict[str, type[ReasonEvalModel]] = {
    "llama": LlamaReasonEval,
    "mistral": MistralReasonEval,
    "qwen2": Qwen2ReasonEval,
}
"""The class for each `model_type` of a checkpoint's configuration."""
