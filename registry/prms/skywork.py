"""The PRM `skywork`: Skywork-o1-Open-PRM, which predicts a value at the line break behind every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

__all__ = ["SkyworkPRM"]


class SkyworkPRM(TransformersPRM):
    r"""Skywork-o1-Open-PRM: the question and each step are a line, with a value at the end of each line.

    The reward is the sigmoid of the value at the line break behind the last step. As in the authors' code, each line is
    tokenized separately, and the line break is a separate token. Only the question is tokenized together with its line
    break. The score of a step with several lines is read at the end of the last line. The bare question, t = 0, is
    scored at the end of its line.

    Parameters
    ----------
    checkpoint : str, default="Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``.
        ``Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B`` has the same format.
    max_tokens : int, default=4096
        Maximum length of a prefix in tokens, line break included. A longer prefix is flagged, never cut.
    dtype, device, batch_tokens, tree_tokens, read_thoughts
        As in :class:`prmcal.TransformersPRM`.
    """

    citation = "He et al. (2024), Skywork-o1 Open Series"
    checkpoint = "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B"
    marker = "\n"

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return a line for the question, then the lines of the steps."""
        return "\n".join(((self.tokenizer.bos_token or "") + question, *steps))

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of the question's line, then of each line of the steps and its line break."""
        line_break = self.tokenize(self.marker)[-1:]
        ids = self.tokenize(self.prefix_text(question, ()) + self.marker)
        for line in (line for step in steps for line in step.split("\n")):
            ids += [*(self.tokenize(line) if line else ()), *line_break]
        return ids

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the value, which is a logit."""
        return head[..., 0]

    def outputs(self) -> int:
        """Return 1: the value."""
        return 1

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the Qwen2 trunk and the linear value head."""
        from prmcal.registry.models.pretrained import load_pretrained
        from prmcal.registry.models.skywork import SkyworkRewardModel

        model = load_pretrained(SkyworkRewardModel, self.checkpoint, self.dtype, self.device)
        assert isinstance(model, SkyworkRewardModel)
        return model.model, model.v_head["summary"]
