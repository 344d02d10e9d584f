"""The PRM `qwen`, with a head of two layers on the hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from prmcal.registry.contracts.plugin import FromClass, from_class
from prmcal.registry.models.checkpoints import chat_text
from prmcal.registry.models.files import Head
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.steps import join_steps

if TYPE_CHECKING:
    import torch


@dataclass(eq=False)
class QwenPRM(TransformersPRM):
    r"""Qwen2.5-Math-PRM: the prefix is the assistant's turn of a chat, and a marker follows it.

    The reward is the softmax of the logits of bad and good at the last marker.
    """

    citation = "Zhang et al. (2025), arXiv:2501.07301"
    checkpoint = "Qwen/Qwen2.5-Math-PRM-7B"
    marker = "<extra_0>"

    markers: Literal["last", "every"] = "last"
    """One marker behind the whole prefix, as in the paper, or one behind every step, as in the model's documentation.
    The score of a prefix is read at its last marker in both cases."""
    system_prompt: FromClass[str] = from_class(
        "Please reason step by step, and put your final answer within \\boxed{}."
    )
    r"""The system prompt of the model's documentation. The paper's ends with "in \\boxed{}." """

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the chat up to the end of the prefix, in the assistant's turn."""
        messages = [{"role": "system", "content": self.system_prompt}, {"role": "user", "content": question}]
        chat = chat_text(self.tokenizer, messages)
        return chat + (self.marker.join(steps) if self.markers == "every" else join_steps(steps))

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the logit of good minus the logit of bad. An exported calibrated PRM has a quantile in its place."""
        if self._quantile is not None:
            return head.sort(dim=-1).values[..., self._quantile]
        return head[..., 1] - head[..., 0]

    def outputs(self) -> int:
        """Return 2 for bad and good, or the number of quantiles of an exported calibrated PRM."""
        return 2 if self._levels is None else len(self._levels)

    def head_weights(self) -> Head:
        """Return the weights of the two layers of the score head."""
        return {"score.0.weight": 0, "score.2.weight": self.outputs()}

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the Qwen2 trunk and the two-layer score head."""
        from prmcal.registry.models.architectures import QwenRewardModel
        from prmcal.registry.models.pretrained import load_pretrained

        model: Any = load_pretrained(QwenRewardModel, self.checkpoint, self.dtype, self.device)
        return model.model, model.score

    @cached_property
    def _quantile(self) -> int | None:
        """The position of an exported calibrated PRM's reward among its sorted outputs. None for an ordinary PRM."""
        return None if self._levels is None else self._levels.index(self._config.get("reward_level", 0.5))

    @property
    def _levels(self) -> list[float] | None:
        """The levels of an exported calibrated PRM's outputs. None for an ordinary PRM."""
        return list(self._config.get("levels") or ()) or None
