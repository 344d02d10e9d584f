"""The PRM `shepherd`: Math-Shepherd and every causal language model that answers '+' or '-' at a tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from prmcal.registry.contracts.data import join_steps
from prmcal.registry.prms.answers import AnswerPRM

if TYPE_CHECKING:
    import torch

__all__ = ["ShepherdPRM"]


class ShepherdPRM(AnswerPRM):
    r"""Math-Shepherd: a causal language model whose next token after a tag is '+' or '-'.

    It reads ``{question} {step} ки\n{step} ки``: the tags of earlier steps are part of what it reads. Its log-odds are
    logit('+') - logit('-') at the last tag, so that the reward is the softmax of the two. Nothing of that format
    scores a bare question, t = 0; here it is ``{question} ки``, a trajectory without a step yet.

    Parameters
    ----------
    checkpoint : str, default="peiyi9979/math-shepherd-mistral-7b-prm"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``: any causal language model of transformers.
    max_tokens : int, default=4096
        Longest prefix, tag included, in tokens. A longer one is flagged, never cut.
    markers : {"every", "last"}, default="every"
        Whether a tag stands behind every step, as the model was trained, or only one behind the prefix, whose steps a
        blank line then parts, as the paper fine-tunes it.
    marker : str, default=" ки"
        The tag with what parts it from the step.
    plus, minus : str, default="+", "-"
        What the model answers. Of a text of several tokens the last one counts, and it must be all of the text.
    dtype, device, batch_tokens, tree_tokens
        As in :class:`prmcal.TransformersPRM`.

    Notes
    -----
    Published rewards of the default checkpoint, for the example of its model card ("Janet's ducks lay 16 eggs per
    day ..."): .9955 .9958 .9983 .9957, and .9955 .9958 .9983 .0240 with 17 in place of 18 in step 4.
    """

    checkpoint = "peiyi9979/math-shepherd-mistral-7b-prm"
    marker = " ки"

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        markers: Literal["every", "last"] = "every",
        marker: str | None = None,
        plus: str | None = None,
        minus: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 4096,
        tree_tokens: int = 512,
    ) -> None:
        super().__init__(checkpoint, max_tokens, plus, minus, dtype, device, batch_tokens, tree_tokens)
        self.markers = markers
        if marker is not None:
            self.marker = marker

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """The question and the steps, each but the last with its tag."""
        if not steps:
            return question
        prefix = f"{self.marker}\n".join(steps) if self.markers == "every" else join_steps(steps)
        return f"{question} {prefix}"

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """As any model that answers, once the tag is known to be a token."""
        self._token(self.marker)
        return super().load_model()
