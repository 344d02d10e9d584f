"""The base of PRMs that are causal language models: their next token is one of two answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prmcal.errors import PluginFailedError
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

__all__ = ["AnswerPRM"]

CHANGES_OF_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Configuration fields of models whose logits are not their head's plain output."""


class AnswerPRM(TransformersPRM):
    """A causal language model whose next token at the end of a prefix says '+' or '-'.

    Its log-odds are logit('+') - logit('-'), so that the reward is the softmax of the two. A subclass says what the
    model reads, in `prefix_text`.

    Parameters
    ----------
    checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens
        As in :class:`prmcal.TransformersPRM`; the checkpoint is any causal language model of transformers.
    plus, minus : str, default="+", "-"
        What the model answers. Of a text of several tokens the last one counts, and it must be all of the text.
    """

    plus = "+"
    minus = "-"

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        plus: str | None = None,
        minus: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 4096,
        tree_tokens: int = 512,
    ) -> None:
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens)
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

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Logit of '+' over '-'; the reward is then the softmax of the two."""
        return head[..., 0] - head[..., 1]

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The trunk, and the rows '+' and '-' of the language-model head: no other logit is ever computed."""
        import torch
        from transformers import AutoModelForCausalLM

        from prmcal.registry.models.pretrained import load_pretrained

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
                "Give its arguments the texts that this model was trained on, or use another checkpoint."
            )
        return int(ids[-1])

    def _check_plain_logits(self, config: Any) -> None:
        for name in CHANGES_OF_LOGITS:
            if getattr(config, name, None) not in (None, 1):
                raise PluginFailedError(
                    f"The checkpoint {self.checkpoint} changes its logits ({name} of model type {config.model_type}), "
                    f"which the PRM '{self.plugin_name}' does not compute. Use a model such as Mistral, Llama or Qwen2."
                )
