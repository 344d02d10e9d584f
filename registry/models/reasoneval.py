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
    """How many outputs a checkpoint's score head has: `score_dimension` at 7B, `score_dim` at 34B."""
    return int(getattr(config, "score_dimension", getattr(config, "score_dim", OUTPUTS)))


class ReasonEvalModel(PreTrainedModel):
    """A trunk under a linear score head to the logits of negative, neutral and positive.

    Its weights are named ``model.*`` and ``score_head.*``, as in the published checkpoints. Whether the head has a
    bias (theirs has none) is `use_bias` in the configuration at 7B, `bias` at 34B.
    """

    trunk: ClassVar[type[PreTrainedModel]]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["score_head"]  # noqa: RUF012

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.model = self.trunk(config)
        bias = bool(getattr(config, "use_bias", getattr(config, "bias", False)))
        self.score_head = torch.nn.Linear(config.hidden_size, OUTPUTS, bias=bias)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Logits of negative, neutral and positive at every token, of shape (batch, tokens, 3), float32."""
        hidden = self.model(**inputs).last_hidden_state
        scores: torch.Tensor = self.score_head(hidden.float())
        return scores


class MistralReasonEval(ReasonEvalModel, MistralPreTrainedModel):  # type: ignore[no-untyped-call]
    """ReasonEval-7B."""

    trunk = MistralModel


class LlamaReasonEval(ReasonEvalModel, LlamaPreTrainedModel):  # type: ignore[no-untyped-call]
    """ReasonEval-34B."""

    trunk = LlamaModel


class Qwen2ReasonEval(ReasonEvalModel, Qwen2PreTrainedModel):  # type: ignore[no-untyped-call]
    """ReasonEval's head on a Qwen2 trunk."""

    trunk = Qwen2Model


REWARD_MODELS: dict[str, type[ReasonEvalModel]] = {
    "llama": LlamaReasonEval,
    "mistral": MistralReasonEval,
    "qwen2": Qwen2ReasonEval,
}
"""The class for each `model_type` of a checkpoint's configuration."""
