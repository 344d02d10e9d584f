"""The PRM `shepherd`: Math-Shepherd and other causal language models that answer '+' or '-' at a tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from prmcal.registry.contracts.ranges import Count
from prmcal.registry.models.placement import Dtype, SpreadableDevice
from prmcal.registry.prms.answers import AnswerPRM
from prmcal.steps import join_steps

if TYPE_CHECKING:
    import torch

__all__ = ["ShepherdPRM"]


class ShepherdPRM(AnswerPRM):
    r"""Math-Shepherd: a causal language model that answers '+' or '-' after a tag.

    The model reads ``{question} {step} ки\n{step} ки``, with the tags of earlier steps. The log-odds are
    logit('+') - logit('-') at the last tag, so the reward is the softmax of the two. The format does not define a score
    for the bare question, t = 0. Here the model reads ``{question} ки``.

    Parameters
    ----------
    checkpoint : str, default="peiyi9979/math-shepherd-mistral-7b-prm"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``. Any causal language model of transformers.
    max_tokens : int, default=4096
        Maximum length of a prefix in tokens, tag included. A longer prefix is flagged, never cut.
    markers : {"every", "last"}, default="every"
        A tag behind every step, as in the model's training, or one tag behind the prefix, with blank lines between its
        steps, as in the paper's fine-tuning.
    marker : str, default=" ки"
        The tag, with the space that separates it from the step.
    plus, minus : str, default="+", "-"
        The answers of the model. Each must be one token, apart from a leading space.
    dtype, device, batch_tokens, tree_tokens, read_thoughts
        As in :class:`prmcal.TransformersPRM`.

    Notes
    -----
    Published rewards of the default checkpoint, for the example of its model card ("Janet's ducks lay 16 eggs per
    day ..."): .9955 .9958 .9983 .9957, and .9955 .9958 .9983 .0240 with 17 in place of 18 in step 4.
    """

    citation = "Wang et al. (2024), ACL, arXiv:2312.08935"
    checkpoint = "peiyi9979/math-shepherd-mistral-7b-prm"
    marker = " ки"

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: Count | None = None,
        markers: Literal["every", "last"] = "every",
        marker: str | None = None,
        plus: str | None = None,
        minus: str | None = None,
        dtype: Dtype = "auto",
        device: SpreadableDevice = "auto",
        batch_tokens: Count = 4096,
        tree_tokens: Count = 512,
        read_thoughts: bool = True,
    ) -> None:
        super().__init__(
            checkpoint, max_tokens, plus, minus, dtype, device, batch_tokens, tree_tokens, read_thoughts
        )
        self.markers = markers
        if marker is not None:
            self.marker = marker

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the question and the steps, each except the last with its tag."""
        if not steps:
            return question
        prefix = f"{self.marker}\n".join(steps) if self.markers == "every" else join_steps(steps)
        return f"{question} {prefix}"

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the model as in :class:`AnswerPRM`, after a check that the tag is a token."""
        self._token(self.marker)
        return super().load_model()
