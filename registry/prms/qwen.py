"""The PRM `qwen`: Qwen2.5-Math-PRM and every model of its format, calibrated ones that were exported among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from prmcal.registry.contracts.data import join_steps
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

__all__ = ["QwenPRM"]


class QwenPRM(TransformersPRM):
    r"""Qwen2.5-Math-PRM: a chat whose assistant turn is the prefix, a marker behind it, softmax of bad and good.

    Parameters
    ----------
    checkpoint : str, default="Qwen/Qwen2.5-Math-PRM-7B"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``.
    max_tokens : int, default=4096
        Longest prefix, marker included, in tokens. A longer one is flagged, never cut.
    markers : {"last", "every"}, default="last"
        Whether one marker stands behind the whole prefix, as the paper scores it, or one behind every step, as the
        model's own documentation has it; the score of a prefix is read at its last marker either way.
    dtype, device, batch_tokens, tree_tokens
        As in :class:`prmcal.TransformersPRM`.
    """

    checkpoint = "Qwen/Qwen2.5-Math-PRM-7B"
    marker = "<extra_0>"
    system_prompt = "Please reason step by step, and put your final answer within \\boxed{}."

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        markers: Literal["last", "every"] = "last",
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 4096,
        tree_tokens: int = 512,
    ) -> None:
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens)
        self.markers = markers

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """The chat up to the end of the prefix, in the assistant's turn."""
        messages = [{"role": "system", "content": self.system_prompt}, {"role": "user", "content": question}]
        chat = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return str(chat) + (self.marker.join(steps) if self.markers == "every" else join_steps(steps))

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Logit of good over bad, so that the reward is the softmax of the two; of a calibrated PRM, the median."""
        if self._levels:
            return head.sort(dim=-1).values[..., self._levels.index(0.5)]
        return head[..., 1] - head[..., 0]

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The Qwen2 trunk and the two-layer score head."""
        from prmcal.registry.models.pretrained import load_pretrained
        from prmcal.registry.models.qwen import QwenRewardModel

        model = load_pretrained(QwenRewardModel, self.checkpoint, self.dtype, self.device)
        assert isinstance(model, QwenRewardModel)
        return model.model, model.score

    @cached_property
    def _levels(self) -> tuple[float, ...]:
        """The quantiles that a calibrated PRM predicts; none if it is an ordinary one."""
        from prmcal.registry.models.checkpoints import resolve_checkpoint

        config = json.loads((resolve_checkpoint(self.checkpoint) / "config.json").read_text(encoding="utf-8"))
        return tuple(config.get("levels") or ())
