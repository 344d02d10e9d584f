"""The PRM `reasoneval`, with a linear head on the hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.models.files import Head
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch


PROMPT = "Question:\n{question}\nAnswer:\nLet's think step by step.\n"


@dataclass(eq=False)
class ReasonEvalPRM(TransformersPRM):
    """ReasonEval: the model classifies each step as negative, neutral or positive.

    The prompt and the steps are tokenized with a separator behind each of them, the tokenizer's pad token. Then the
    separators are removed from the token ids. So each part is tokenized separately, and the model reads no separator.
    The reward is 1 - p(negative), the validity of Xia et al. (2024), "Evaluating Mathematical Reasoning Beyond
    Accuracy". The bare question, t = 0, is scored at the end of the prompt. The trunk is a Mistral (7B), a Llama (34B)
    or a Qwen2.

    Notes
    -----
    The pad token of ReasonEval-7B is also its begin-of-sequence token. So the removal of the separators removes that
    token too. The authors' code inserts this token again, but does not shift the positions of the scores by one. It
    reads each score one token before the end of the step. This is the default, since the published numbers were
    computed so. For models whose two tokens differ (ReasonEval-34B, other tokenizers), the authors' code reads the last
    token, and ``reference`` and ``end`` are the same.

    Published rewards for the example of the authors' repository ("Let $x,$ $y,$ and $z$ be positive real numbers ...",
    10 steps): 7B .9492 .7863 .2520 .7860 .9125 .5916 .4494 .8189 .8240 .2671,
    34B .9360 .6813 .0720 .2811 .4531 .1122 .1328 .2026 .2265 .1163.
    """

    citation = "Xia et al. (2025), AAAI, arXiv:2404.05692"
    checkpoint = "GAIR/ReasonEval-7B"

    read_at: Literal["reference", "end"] = "reference"
    """Where the score of a prefix is read: as in the authors' code (see the notes), or at the last token."""

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the prompt and the steps, with a separator behind each."""
        return "".join(piece + self._separator for piece in (PROMPT.format(question=question), *steps))

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids without the separators, up to where the score is read."""
        separator = self.tokenizer.pad_token_id
        ids = [token for token in super().tokenize(text) if token != separator]
        if separator != self.tokenizer.bos_token_id:
            return ids
        ids = [separator, *ids]
        return ids[:-1] if self.read_at == "reference" else ids

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the log-odds of neutral or positive against negative. The reward is 1 - p(negative)."""
        return head[..., 1:].logsumexp(-1) - head[..., 0]

    def outputs(self) -> int:
        """Return 3: negative, neutral and positive."""
        return 3

    def head_weights(self) -> Head:
        """Return the weights of the score head."""
        return {"score_head.weight": self.outputs()}

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk that the checkpoint's configuration names, and the linear score head."""
        from prmcal.registry.models.architectures import REWARD_MODELS, ReasonEvalModel
        from prmcal.registry.models.pretrained import load_pretrained

        model_type = self._config.get("model_type")
        if model_type not in REWARD_MODELS:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} has the model type '{model_type}'. The PRM '{self.plugin_name}' "
                f"supports {', '.join(REWARD_MODELS)}."
            )
        model = load_pretrained(REWARD_MODELS[model_type], self.checkpoint, self.dtype, self.device)
        assert isinstance(model, ReasonEvalModel)
        return model.model, model.score_head

    @property
    def _separator(self) -> str:
        token = self.tokenizer.pad_token
        if token is None:
            raise PluginFailedError(
                f"The tokenizer of {self.checkpoint} has no pad token. ReasonEval's format needs it to separate steps."
            )
        return str(token)
