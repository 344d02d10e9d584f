"""The PRM `reasoneval`: ReasonEval-7B and -34B, and every model of their format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

__all__ = ["ReasonEvalPRM"]

PROMPT = "Question:\n{question}\nAnswer:\nLet's think step by step.\n"


class ReasonEvalPRM(TransformersPRM):
    """ReasonEval: the steps one after another without anything between, three classes at the end of each.

    Prompt and steps are tokenized with a separator behind each of them, the tokenizer's pad token, and the separators
    are then taken out of the ids: each part is tokenized by itself, and the model never reads a separator. The reward
    is 1 - p(negative), the validity of Xia et al. (2024), "Evaluating Mathematical Reasoning Beyond Accuracy". The
    bare question, t = 0, is scored at the end of the prompt.

    Parameters
    ----------
    checkpoint : str, default="GAIR/ReasonEval-7B"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``; its trunk is a Mistral (as at 7B), a Llama
        (as at 34B) or a Qwen2.
    max_tokens : int, default=4096
        Most tokens up to where a prefix's score is read. A longer prefix is flagged, never cut.
    read_at : {"reference", "end"}, default="reference"
        Where the score of a prefix is read: at its last token, or where the authors' code reads it, see Notes.
    dtype, device, batch_tokens, tree_tokens
        As in :class:`prmcal.TransformersPRM`.

    Notes
    -----
    The pad token of ReasonEval-7B is also its begin-of-sequence token, so that taking the separators out takes that
    one out too. The authors' code puts it back in front but keeps the positions counted without it: it reads each
    score one token before the end of its step. The published numbers are made like that, hence the default. Where the
    two tokens differ (ReasonEval-34B, models of other tokenizers) their code reads the last token, and ``reference``
    and ``end`` are the same.

    Published rewards for the example of the authors' repository ("Let $x,$ $y,$ and $z$ be positive real numbers ...",
    10 steps): 7B .9492 .7863 .2520 .7860 .9125 .5916 .4494 .8189 .8240 .2671,
    34B .9360 .6813 .0720 .2811 .4531 .1122 .1328 .2026 .2265 .1163.
    """

    checkpoint = "GAIR/ReasonEval-7B"

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        read_at: Literal["reference", "end"] = "reference",
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 4096,
        tree_tokens: int = 512,
    ) -> None:
        super().__init__(checkpoint, max_tokens, dtype, device, batch_tokens, tree_tokens)
        self.read_at = read_at

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """The prompt and the steps, a separator behind each."""
        return "".join(part + self._separator for part in (PROMPT.format(question=question), *steps))

    def tokenize(self, text: str) -> list[int]:
        """Token ids without the separators, up to where the score is read."""
        separator = self.tokenizer.pad_token_id
        ids = [token for token in super().tokenize(text) if token != separator]
        if separator != self.tokenizer.bos_token_id:
            return ids
        ids = [separator, *ids]
        return ids[:-1] if self.read_at == "reference" else ids

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Log-odds of neutral or positive over negative; the reward is then 1 - p(negative)."""
        return head[..., 1:].logsumexp(-1) - head[..., 0]

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The trunk that the checkpoint's configuration names, and the linear score head."""
        from transformers import AutoConfig

        from prmcal.registry.models.checkpoints import resolve_checkpoint
        from prmcal.registry.models.pretrained import load_pretrained
        from prmcal.registry.models.reasoneval import OUTPUTS, REWARD_MODELS, ReasonEvalModel, score_outputs

        try:
            config = AutoConfig.from_pretrained(resolve_checkpoint(self.checkpoint), local_files_only=True)
        except (OSError, ValueError) as error:
            raise PluginFailedError(f"The checkpoint {self.checkpoint} cannot be loaded: {error}") from error
        if config.model_type not in REWARD_MODELS:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} is of model type '{config.model_type}'. The PRM "
                f"'{self.plugin_name}' knows {', '.join(REWARD_MODELS)}."
            )
        outputs = score_outputs(config)
        if outputs != OUTPUTS:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} has {outputs} outputs. The PRM '{self.plugin_name}' reads "
                f"{OUTPUTS}: negative, neutral and positive."
            )
        model = load_pretrained(REWARD_MODELS[config.model_type], self.checkpoint, self.dtype, self.device)
        assert isinstance(model, ReasonEvalModel)
        return model.model, model.score_head

    @property
    def _separator(self) -> str:
        token = self.tokenizer.pad_token
        if token is None:
            raise PluginFailedError(
                f"The tokenizer of {self.checkpoint} has no pad token, which parts the steps in ReasonEval's format."
            )
        return str(token)
