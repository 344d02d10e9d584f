"""The architecture of Qwen2.5-Math-PRM, on transformers' own Qwen2 classes."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2Model, Qwen2PreTrainedModel

__all__ = ["QUANTILE_ARCHITECTURE", "QwenRewardModel"]

OUTPUTS = 2
QUANTILE_ARCHITECTURE = "Qwen2ForQuantileRewardModel"
"""The architecture of an exported calibrated PRM in its configuration."""


class QwenRewardModel(Qwen2PreTrainedModel):
    """A Qwen2 trunk with a score head: Linear, ReLU, and Linear to the logits of bad and good.

    The weights are named ``model.*``, ``score.0.*`` and ``score.2.*``, as in the published checkpoints. The
    language-model head of these is not used. An exported calibrated PRM has `levels` in its configuration, and its
    outputs are the log-odds of these quantiles. Its reward is the quantile of `reward_level`.
    """

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["score"]  # noqa: RUF012

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.score = torch.nn.Sequential(
            torch.nn.Linear(config.hidden_size, config.hidden_size),
            torch.nn.ReLU(),
            torch.nn.Linear(config.hidden_size, len(getattr(config, "levels", None) or range(OUTPUTS))),
        )
        self.post_init()

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Return the outputs of the head at every token, of shape (batch, tokens, outputs), float32."""
        hidden = self.model(**inputs).last_hidden_state
        scores: torch.Tensor = self.score(hidden.float())
        return scores
