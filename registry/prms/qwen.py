"""The PRM `qwen`: Qwen2.5-Math-PRM and other models of its format, including exported calibrated PRMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from prmcal.registry.contracts.ranges import Count
from prmcal.registry.models.chats import chat_text
from prmcal.registry.models.placement import Dtype, SpreadableDevice
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.steps import join_steps

if TYPE_CHECKING:
    import torch

__all__ = ["QwenPRM"]


class QwenPRM(TransformersPRM):
    r"""Qwen2.5-Math-PRM: the prefix is the assistant's turn of a chat, and a marker follows it.

    The reward is the softmax of the logits of bad and good at the last marker.

    Parameters
    ----------
    checkpoint : str, default="Qwen/Qwen2.5-Math-PRM-7B"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``.
    max_tokens : int, default=4096
        Maximum length of a prefix in tokens, marker included. A longer prefix is flagged, never cut.
    markers : {"last", "every"}, default="last"
        One marker behind the whole prefix, as in the paper, or one behind every step, as in the model's documentation.
        The score of a prefix is read at its last marker in both cases.
    dtype, device, batch_tokens, tree_tokens, read_thoughts
        As in :class:`prmcal.TransformersPRM`.
    """

    citation = "Zhang et al. (2025), arXiv:2501.07301"
    checkpoint = "Qwen/Qwen2.5-Math-PRM-7B"
    marker = "<extra_0>"
    system_prompt = "Please reason step by step, and put your final answer within \\boxed{}."

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: Count | None = None,
        markers: Literal["last", "every"] = "last",
        dtype: Dtype = "auto",
        device: SpreadableDevice = "auto",
        batch_tokens: Count = 4096,
        tree_tokens: Count = 512,
        read_thoughts: bool = True,
    ) -> None:
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens, read_thoughts)
        self.markers = markers

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the chat up to the end of the prefix, in the assistant's turn."""
        messages = [{"role": "system", "content": self.system_prompt}, {"role": "user", "content": question}]
        chat = chat_text(self.tokenizer, messages)
        return chat + (self.marker.join(steps) if self.markers == "every" else join_steps(steps))

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the logit of good minus that of bad, or the quantile that an exported calibrated PRM has as reward."""
        if self._quantile is not None:
            return head.sort(dim=-1).values[..., self._quantile]
        return head[..., 1] - head[..., 0]

    def outputs(self) -> int:
        """Return 2 for bad and good, or the number of quantiles of an exported calibrated PRM."""
        return 2 if self._levels is None else len(self._levels)

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the Qwen2 trunk and the two-layer score head."""
        from prmcal.registry.models.pretrained import load_pretrained
        from prmcal.registry.models.qwen import QwenRewardModel

        model = load_pretrained(QwenRewardModel, self.checkpoint, self.dtype, self.device)
        assert isinstance(model, QwenRewardModel)
        return model.model, model.score

    @cached_property
    def _quantile(self) -> int | None:
        """The place of an exported calibrated PRM's reward among its sorted outputs. None for an ordinary PRM."""
        return None if self._levels is None else self._levels.index(self._config.get("reward_level", 0.5))

    @property
    def _levels(self) -> list[float] | None:
        """The levels of an exported calibrated PRM's outputs. None for an ordinary PRM."""
        return list(self._config.get("levels") or ()) or None

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint

        return read_config(resolve_checkpoint(self.checkpoint))
