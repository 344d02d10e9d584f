"""PRMs with a head on the hidden states of a language model: `qwen`, `skywork` and `reasoneval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.plugin import Own, own
from prmcal.registry.models.checkpoints import chat_text
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.steps import join_steps

if TYPE_CHECKING:
    import torch


@dataclass(eq=False)
class QwenPRM(TransformersPRM):
    r"""Qwen2.5-Math-PRM: the prefix is the assistant's turn of a chat, and a marker follows it.

    The reward is the softmax of the logits of bad and good at the last marker.

    Parameters
    ----------
    markers : {"last", "every"}, default="last"
        One marker behind the whole prefix, as in the paper, or one behind every step, as in the model's documentation.
        The score of a prefix is read at its last marker in both cases.
    system_prompt : str, default="Please reason step by step, and put your final answer within \\boxed{}."
        That of the model's documentation. The paper's ends with "in \\boxed{}."
    """

    citation = "Zhang et al. (2025), arXiv:2501.07301"
    checkpoint = "Qwen/Qwen2.5-Math-PRM-7B"
    marker = "<extra_0>"

    markers: Literal["last", "every"] = "last"
    system_prompt: Own[str] = own("Please reason step by step, and put your final answer within \\boxed{}.")

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the system prompt if it is not the class's own."""
        known = super().identity()
        if known["arguments"].get("system_prompt") is None:
            known["arguments"].pop("system_prompt", None)
        return known

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the chat up to the end of the prefix, in the assistant's turn."""
        messages = [{"role": "system", "content": self.system_prompt}, {"role": "user", "content": question}]
        chat = chat_text(self.tokenizer, messages)
        return chat + (self.marker.join(steps) if self.markers == "every" else join_steps(steps))

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the logit of good minus that of bad, or the quantile that an exported calibrated PRM has as reward."""
        if self._quantile is not None:
            return head.sort(dim=-1).values[..., self._quantile]
        return head[..., 1] - head[..., 0]

    def outputs(self) -> int:
        """Return 2 for bad and good, or the number of quantiles of an exported calibrated PRM."""
        return 2 if self._levels is None else len(self._levels)

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the Qwen2 trunk and the two-layer score head."""
        from prmcal.registry.models.architectures import QwenRewardModel
        from prmcal.registry.models.pretrained import load_pretrained

        model = load_pretrained(QwenRewardModel, self.checkpoint, self.dtype, self.device)
        assert isinstance(model, QwenRewardModel)
        return model.model, model.score

    @cached_property
    def _quantile(self) -> int | None:
        """The place of an exported calibrated PRM's reward among its sorted outputs. None for an ordinary PRM."""
        return None if self._levels is None else self._levels.index(self._config.get("reward_level", 0.5))

    @property
    def _levels(self) -> list[float] | None:
        """The levels of an exported calibrated PRM's outputs. None for an ordinary PRM."""
        return list(self._config.get("levels") or ()) or None

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint

        return read_config(resolve_checkpoint(self.checkpoint))


class SkyworkPRM(TransformersPRM):
    r"""Skywork-o1-Open-PRM: the question and each step are a line, with a value at the end of each line.

    The reward is the sigmoid of the value at the line break behind the last step. As in the authors' code, each line is
    tokenized separately, and the line break is a separate token. Only the question is tokenized together with its line
    break. The score of a step with several lines is read at the end of the last line. The bare question, t = 0, is
    scored at the end of its line.

    Parameters
    ----------
    checkpoint : str, default="Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B"
        ``Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B`` has the same format.
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
        from prmcal.registry.models.architectures import SkyworkRewardModel
        from prmcal.registry.models.pretrained import load_pretrained

        model = load_pretrained(SkyworkRewardModel, self.checkpoint, self.dtype, self.device)
        assert isinstance(model, SkyworkRewardModel)
        return model.model, model.v_head["summary"]


PROMPT = "Question:\n{question}\nAnswer:\nLet's think step by step.\n"


@dataclass(eq=False)
class ReasonEvalPRM(TransformersPRM):
    """ReasonEval: the model classifies each step as negative, neutral or positive.

    The prompt and the steps are tokenized with a separator behind each of them, the tokenizer's pad token. Then the
    separators are removed from the token ids. So each part is tokenized separately, and the model reads no separator.
    The reward is 1 - p(negative), the validity of Xia et al. (2024), "Evaluating Mathematical Reasoning Beyond
    Accuracy". The bare question, t = 0, is scored at the end of the prompt.

    Parameters
    ----------
    checkpoint : str, default="GAIR/ReasonEval-7B"
        The trunk is a Mistral (7B), a Llama (34B) or a Qwen2.
    read_at : {"reference", "end"}, default="reference"
        Where the score of a prefix is read: as in the authors' code (see the notes), or at the last token.

    Notes
    -----
    The pad token of ReasonEval-7B is also its begin-of-sequence token. So the removal of the separators removes that
    token too. The authors' code inserts it again, but does not shift the positions of the scores by one. It reads each
    score one token before the end of the step. The published numbers were computed like this, so it is the default.
    For models whose two tokens differ (ReasonEval-34B, other tokenizers), the authors' code reads the last token, and
    ``reference`` and ``end`` are the same.

    Published rewards for the example of the authors' repository ("Let $x,$ $y,$ and $z$ be positive real numbers ...",
    10 steps): 7B .9492 .7863 .2520 .7860 .9125 .5916 .4494 .8189 .8240 .2671,
    34B .9360 .6813 .0720 .2811 .4531 .1122 .1328 .2026 .2265 .1163.
    """

    citation = "Xia et al. (2025), AAAI, arXiv:2404.05692"
    checkpoint = "GAIR/ReasonEval-7B"

    read_at: Literal["reference", "end"] = "reference"

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the prompt and the steps, with a separator behind each."""
        return "".join(part + self._separator for part in (PROMPT.format(question=question), *steps))

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

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk that the checkpoint's configuration names, and the linear score head."""
        from transformers import AutoConfig

        from prmcal.registry.models.architectures import (
            REASONEVAL_OUTPUTS,
            REWARD_MODELS,
            ReasonEvalModel,
            score_outputs,
        )
        from prmcal.registry.models.checkpoints import resolve_checkpoint
        from prmcal.registry.models.pretrained import load_pretrained

        try:
            config = AutoConfig.from_pretrained(resolve_checkpoint(self.checkpoint), local_files_only=True)
        except (OSError, ValueError) as error:
            raise PluginFailedError(f"The checkpoint {self.checkpoint} cannot be loaded: {error}") from error
        if config.model_type not in REWARD_MODELS:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} has the model type '{config.model_type}'. The PRM "
                f"'{self.plugin_name}' supports {', '.join(REWARD_MODELS)}."
            )
        outputs = score_outputs(config)
        if outputs != REASONEVAL_OUTPUTS:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} has {outputs} outputs. The PRM '{self.plugin_name}' reads "
                f"{REASONEVAL_OUTPUTS}: negative, neutral and positive."
            )
        model = load_pretrained(REWARD_MODELS[config.model_type], self.checkpoint, self.dtype, self.device)
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
