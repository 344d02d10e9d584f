"""The PRM `shepherd`: Math-Shepherd and every causal language model that answers '+' or '-' at a tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from registry.contracts.data import join_steps
from registry.errors import PluginFailedError
from registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

__all__ = ["ShepherdPRM"]

CHANGES_OF_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Configuration fields of models whose logits are not their head's plain output."""


class ShepherdPRM(TransformersPRM):
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
        As in :class:`registry.TransformersPRM`.

    Notes
    -----
    Published rewards of the default checkpoint, for the example of its model card ("Janet's ducks lay 16 eggs per
    day ..."): .9955 .9958 .9983 .9957, and .9955 .9958 .9983 .0240 with 17 in place of 18 in step 4.
    """

    checkpoint = "peiyi9979/math-shepherd-mistral-7b-prm"
    marker = " ки"
    plus = "+"
    minus = "-"

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
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens)
        self.markers = markers
        if marker is not None:
            self.marker = marker
        if plus is not None:
            self.plus = plus
        if minus is not None:
            self.minus = minus

    def check_arguments(self) -> None:
        """Refuse also answers that cannot be told apart."""
        super().check_arguments()
        if not self.plus or not self.minus or self.plus == self.minus:
            raise ValueError(
                "The 'plus' and 'minus' parameters must be two different texts. "
                f"Got {self.plus!r} and {self.minus!r} instead."
            )

    def identity(self) -> dict[str, Any]:
        """Also the two answers."""
        return {**super().identity(), "plus": self.plus, "minus": self.minus}

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """The question and the steps, each but the last with its tag."""
        if not steps:
            return question
        prefix = f"{self.marker}\n".join(steps) if self.markers == "every" else join_steps(steps)
        return f"{question} {prefix}"

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Logit of '+' over '-'; the reward is then the softmax of the two."""
        return head[..., 0] - head[..., 1]

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The trunk, and the rows '+' and '-' of the language-model head: no other logit is ever computed."""
        import torch
        from transformers import AutoModelForCausalLM

        from registry.pretrained import load_pretrained

        self._token(self.marker)
        answers = [self._token(self.plus), self._token(self.minus)]
        model: Any = load_pretrained(AutoModelForCausalLM, self.checkpoint, self.dtype, self.device)
        self._check_plain_logits(model.config)
        vocabulary = model.get_output_embeddings()
        head = torch.nn.Linear(
            vocabulary.weight.shape[1],
            len(answers),
            bias=vocabulary.bias is not None,
            device=vocabulary.weight.device,
        )
        with torch.no_grad():
            head.weight.copy_(vocabulary.weight[answers])
            if vocabulary.bias is not None:
                head.bias.copy_(vocabulary.bias[answers])
        return model.base_model, head

    def _token(self, text: str) -> int:
        """The last token of a text, which has to be all of it but the space before."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        last = self.tokenizer.decode(ids[-1:], clean_up_tokenization_spaces=False)
        if not ids or str(last).strip(" ") != text.strip(" "):
            raise PluginFailedError(
                f"The tokenizer of {self.checkpoint} has no token {text.strip(' ')!r}, which the PRM "
                f"'{self.plugin_name}' needs: it reads {self.tokenizer.convert_ids_to_tokens(ids)}. "
                "Set 'marker', 'plus' and 'minus' to what this model was trained on, or use another checkpoint."
            )
        return int(ids[-1])

    def _check_plain_logits(self, config: Any) -> None:
        for name in CHANGES_OF_LOGITS:
            if getattr(config, name, None) not in (None, 1):
                raise PluginFailedError(
                    f"The checkpoint {self.checkpoint} changes its logits ({name} of model type {config.model_type}), "
                    f"which the PRM '{self.plugin_name}' does not compute. Use a model such as Mistral, Llama or Qwen2."
                )
