"""The base class of PRMs that are causal language models with one of two answers as the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.models.placement import Dtype, SpreadableDevice
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

__all__ = ["AnswerPRM", "answer_head", "answer_token"]

CHANGES_OF_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Configuration fields of models that transform the output of the head before it becomes the logits."""


class AnswerPRM(TransformersPRM):
    """A causal language model that answers '+' or '-' with the next token after a prefix.

    The log-odds are logit('+') - logit('-'), so the reward is the softmax of the two. A subclass defines `prefix_text`,
    the text that the model reads.

    Parameters
    ----------
    checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens, read_thoughts
        As in :class:`prmcal.TransformersPRM`. The checkpoint is any causal language model of transformers.
    plus, minus : str, default="+", "-"
        The answers of the model. Each must be one token, apart from a leading space.
    """

    plus = "+"
    minus = "-"

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: Count | None = None,
        plus: str | None = None,
        minus: str | None = None,
        dtype: Dtype = "auto",
        device: SpreadableDevice = "auto",
        batch_tokens: Count = 4096,
        tree_tokens: Count = 512,
        read_thoughts: bool = True,
    ) -> None:
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens, read_thoughts)
        if plus is not None:
            self.plus = plus
        if minus is not None:
            self.minus = minus

    def check_arguments(self) -> None:
        """Raise ValueError also if the answers are empty or equal."""
        super().check_arguments()
        if not self.plus or not self.minus or self.plus == self.minus:
            raise ValueError(
                "The 'plus' and 'minus' parameters must be two different texts. "
                f"Got {self.plus!r} and {self.minus!r} instead."
            )

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the two answers."""
        return {**super().identity(), "plus": self.plus, "minus": self.minus}

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return logit('+') - logit('-')."""
        return head[..., 0] - head[..., 1]

    def outputs(self) -> int:
        """Return 2: the logits of '+' and '-'."""
        return 2

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, and only the rows '+' and '-' of the language-model head."""
        from transformers import AutoModelForCausalLM

        from prmcal.registry.models.pretrained import load_pretrained

        answers = [self._token(self.plus), self._token(self.minus)]
        model: Any = load_pretrained(AutoModelForCausalLM, self.checkpoint, self.dtype, self.device)
        return model.base_model, answer_head(model, answers, self)

    def _token(self, text: str) -> int:
        """The last token of a text. It must be the whole text, apart from a leading space."""
        token = answer_token(self.tokenizer, text)
        if token is None:
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            raise PluginFailedError(
                f"The tokenizer of {self.checkpoint} has no token {text.strip(' ')!r}, which the PRM "
                f"'{self.plugin_name}' needs. It splits the text into {self.tokenizer.convert_ids_to_tokens(ids)}. "
                "Set the arguments to the texts that this model was trained on, or use another checkpoint."
            )
        return token


def answer_token(tokenizer: PreTrainedTokenizerBase, text: str) -> int | None:
    """Return the last token of a text, if it is the whole text apart from a leading space; None otherwise."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    last = tokenizer.decode(ids[-1:], clean_up_tokenization_spaces=False)
    return int(ids[-1]) if ids and str(last).strip(" ") == text.strip(" ") else None


def answer_head(model: Any, tokens: Sequence[int], prm: TransformersPRM) -> torch.nn.Linear:
    """Return the rows of some tokens of a model's language-model head.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model.
    tokens : sequence of int
    prm : TransformersPRM
        The PRM that error messages name.

    Raises
    ------
    PluginFailedError
        If the model transforms its logits.
    """
    import torch

    for name in CHANGES_OF_LOGITS:
        if getattr(model.config, name, None) not in (None, 1):
            raise PluginFailedError(
                f"The checkpoint {prm.checkpoint} transforms its logits ({name} of model type "
                f"{model.config.model_type}), which the PRM '{prm.plugin_name}' does not support. Use a model such as "
                "Mistral, Llama or Qwen2."
            )
    vocabulary = model.get_output_embeddings()
    rows = list(tokens)
    head = torch.nn.Linear(
        vocabulary.weight.shape[1],
        len(rows),
        bias=vocabulary.bias is not None,
        device=vocabulary.weight.device,
    )
    with torch.no_grad():
        head.weight.copy_(vocabulary.weight[rows])
        if vocabulary.bias is not None:
            head.bias.copy_(vocabulary.bias[rows])
    return head
