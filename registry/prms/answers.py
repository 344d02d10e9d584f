"""The PRM `shepherd`, whose score is the probability of an answer token, and the tokens of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.plugin import FromClass, from_class
from prmcal.registry.models.checkpoints import chat_text
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.steps import join_steps

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

CHANGES_OF_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Configuration fields of models that transform the output of the head before it becomes the logits."""


@dataclass(eq=False)
class ShepherdPRM(TransformersPRM):
    r"""Math-Shepherd: a causal language model that answers '+' or '-' after a tag.

    The model reads ``{question} {step} ки\n{step} ки``, with the tags of earlier steps. The log-odds are
    logit('+') - logit('-') at the last tag, so the reward is the softmax of the two. The format does not define a score
    for the bare question, t = 0. Here the model reads ``{question} ки``.

    With ``markers: turns`` it reads the format of RLHFlow's PRMs (Xiong et al. 2024), such as
    ``RLHFlow/Llama3.1-8B-PRM-Deepseek-Data``: a chat in which each step is a user's turn, and the assistant answers '+'
    or '-'. The first turn is the question, a space and the first step. The answers to all earlier steps are always
    `plus` in the chat, as in the training and in the authors' code. The score is read at the beginning of the
    assistant's last turn. The bare question is a chat with the question as the only turn.

    Notes
    -----
    Published rewards of the default checkpoint, for the example of its model card ("Janet's ducks lay 16 eggs per
    day ..."): .9955 .9958 .9983 .9957, and .9955 .9958 .9983 .0240 with 17 in place of 18 in step 4.

    In the code of RLHFlow's authors, the chat ends with '+' and the end of the turn, and the logits are read three
    tokens before the end. This is the position before the '+', which is the last token here.
    """

    citation = "Wang et al. (2024), ACL, arXiv:2312.08935"
    checkpoint = "peiyi9979/math-shepherd-mistral-7b-prm"

    plus: FromClass[str] = from_class("+")
    minus: FromClass[str] = from_class("-")
    """The answers of the model. Each must be one token, apart from a leading space."""
    markers: Literal["every", "last", "every, blank lines", "turns"] = "every"
    """A tag behind every step, as in the model's training, or one tag behind the prefix, with blank lines between its
    steps, as in the fine-tuning of Park et al. (2025). Their code ranks with a tag behind every step and blank lines
    between steps. With ``turns``: the turns of a chat in place of tags, as in RLHFlow's PRMs."""
    marker: FromClass[str] = from_class(" ки")
    """The tag, with the space that separates it from the step. The turns of a chat have no tag."""

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

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the question and the steps, each except the last with its tag; or the chat up to the last answer."""
        if self.markers == "turns":
            first_step, *later = [step.strip() for step in steps] or [""]
            messages = [{"role": "user", "content": f"{question} {first_step}".strip()}]
            for step in later:
                messages += [{"role": "assistant", "content": self.plus}, {"role": "user", "content": step}]
            return chat_text(self.tokenizer, messages)
        if not steps:
            return question
        if self.markers == "last":
            return f"{question} {join_steps(steps)}"
        between = "\n" if self.markers == "every" else "\n\n"
        return f"{question} {f'{self.marker}{between}'.join(steps)}"

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix with its tag, or of the chat, which contains the special tokens."""
        if self.markers != "turns":
            return super().tokenize_prefix(question, steps)
        chat = self.prefix_text(question, steps)
        return list(self.tokenizer(chat, add_special_tokens=False, verbose=False)["input_ids"])

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return logit('+') - logit('-')."""
        return head[..., 0] - head[..., 1]

    def outputs(self) -> int:
        """Return 2, for the logits of '+' and '-'."""
        return 2

    def head_weights(self) -> Head:
        """Return the weights of the language-model head."""
        return LANGUAGE_HEAD

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, and only the rows '+' and '-' of the language-model head. The tag must be a token, too."""
        if self.markers != "turns":
            self._token(self.marker)
        answers, model = [self._token(self.plus), self._token(self.minus)], language_model(self)
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


def language_model(prm: TransformersPRM) -> Any:
    """Load the checkpoint of a PRM as a causal language model."""
    from transformers import AutoModelForCausalLM

    from prmcal.registry.models.pretrained import load_pretrained

    return load_pretrained(AutoModelForCausalLM, prm.checkpoint, prm.dtype, prm.device)


def answer_token(tokenizer: PreTrainedTokenizerBase, text: str) -> int | None:
    """Return the last token of a text if this token is the whole text, apart from a leading space; None otherwise."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    last_text = tokenizer.decode(ids[-1:], clean_up_tokenization_spaces=False)
    return int(ids[-1]) if ids and str(last_text).strip(" ") == text.strip(" ") else None


def answer_head(model: Any, tokens: Sequence[int], prm: TransformersPRM) -> torch.nn.Linear:
    """Return the rows of some tokens of the language-model head of a causal language model.

    Raises a PluginFailedError, which names the PRM, if the model transforms its logits.
    """
    import torch

    for name in CHANGES_OF_LOGITS:
        if getattr(model.config, name, None) not in (None, 1):
            raise PluginFailedError(
                f"The checkpoint {prm.checkpoint} transforms its logits ({name} of model type "
                f"{model.config.model_type}), which the PRM '{prm.plugin_name}' does not support. Use a model such as "
                "Mistral, Llama or Qwen2."
            )
    vocabulary, rows = model.get_output_embeddings(), list(tokens)
    weight, bias = vocabulary.weight, vocabulary.bias
    head = torch.nn.Linear(weight.shape[1], len(rows), bias=bias is not None, device=weight.device)
    with torch.no_grad():
        head.weight.copy_(weight[rows])
        if bias is not None:
            head.bias.copy_(bias[rows])
    return head
