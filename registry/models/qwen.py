"""The architecture of Qwen2.5-Math-PRM, on transformers' own Qwen2 classes."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2Model, Qwen2PreTrainedModel

__all__ = ["QUANTILE_ARCHITECTURE", "QwenRewardModel"]

OUTPUTS = 2
QUANTILE_ARCHITECTURE = "Qwen2ForQuantileRewardModel"
"""What an exported, calibrated PRM is called in its configuration."""


class QwenRewardModel(Qwen2PreTrainedModel):  # type: ignore[no-untyped-call]  # transformers is half typed
    """A Qwen2 trunk under a two-layer score head: Linear, ReLU, Linear to the logits of bad and good.

    Its weights are named ``model.*``, ``score.0.*`` and ``score.2.*``, as in the published checkpoints, whose
    language-model head is not used. A calibrated PRM that was exported has an output for each quantile instead, its
    log-odds; the configuration then has their `levels`.
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
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Logits of bad and good, or of each quantile, at every token: (batch, tokens, outputs), float32."""
        hidden = self.model(**inputs).last_hidden_state
        scores: torch.Tensor = self.score(hidden.float())
        return scores
