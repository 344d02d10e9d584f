"""The architecture of Skywork-o1-Open-PRM, on transformers' own Qwen2 classes."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2Model, Qwen2PreTrainedModel

__all__ = ["SkyworkRewardModel"]


class SkyworkRewardModel(Qwen2PreTrainedModel):
    """A Qwen2 trunk with a linear head to one value.

    The weights are named ``model.*`` and ``v_head.summary.*``, as in the published checkpoints. The language-model head
    of these is not used.
    """

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["v_head"]  # noqa: RUF012

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.v_head = torch.nn.ModuleDict({"summary": torch.nn.Linear(config.hidden_size, 1)})
        self.post_init()

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Return the value at every token, of shape (batch, tokens, 1), float32."""
        hidden = self.model(**inputs).last_hidden_state
        values: torch.Tensor = self.v_head["summary"](hidden.float())
        return values
