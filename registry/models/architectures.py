"""The reward models of Qwen and ReasonEval on native classes of transformers."""

from typing import Any, ClassVar

import torch
import transformers

OUTPUTS = 2
QUANTILE_ARCHITECTURE = "Qwen2ForQuantileRewardModel"
"""The architecture of an exported calibrated PRM in its configuration."""

REASONEVAL_OUTPUTS = 3
"""Negative, neutral, positive."""


class QwenRewardModel(transformers.Qwen2PreTrainedModel):
    """A Qwen2 trunk with a score head: Linear, ReLU, and Linear to the logits of bad and good.

    The weights are named ``model.*``, ``score.0.*`` and ``score.2.*``, as in the published checkpoints. The
    language-model head of these is not used. An exported calibrated PRM has `levels` in its configuration, and its
    outputs are the log-odds of these quantiles. Its reward is the quantile of `reward_level`.
    """

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["score"]  # noqa: RUF012

    def __init__(self, config: transformers.Qwen2Config) -> None:
        super().__init__(config)
        self.model = transformers.Qwen2Model(config)
        self.score = torch.nn.Sequential(
            torch.nn.Linear(config.hidden_size, config.hidden_size),
            torch.nn.ReLU(),
            torch.nn.Linear(config.hidden_size, len(getattr(config, "levels", None) or range(OUTPUTS))),
        )
        self.post_init()

    def forward(self, **inputs: Any) -> torch.Tensor:
        """Return the outputs of the head at every token, of shape (batch, tokens, outputs), float32."""
        hidden = self.model(**inputs).last_hidden_state
        scores: torch.Tensor = self.score(hidden.float())
        return scores


class ReasonEvalModel(transformers.PreTrainedModel):
    """A trunk with a linear score head to the logits of negative, neutral and positive.

    The weights are named ``model.*`` and ``score_head.*``, as in the published checkpoints. `use_bias` (7B) or `bias`
    (34B) in the configuration says whether the head has a bias. The published heads have no bias.
    """

    trunk: ClassVar[type[transformers.PreTrainedModel]]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.weight$"]  # noqa: RUF012 (transformers' own attribute)
    _keep_in_fp32_modules_strict = ["score_head"]  # noqa: RUF012

    def __init__(self, config: transformers.PreTrainedConfig) -> None:
        super().__init__(config)
        self.model = self.trunk(config)
        bias = bool(getattr(config, "use_bias", getattr(config, "bias", False)))
        self.score_head = torch.nn.Linear(config.hidden_size, REASONEVAL_OUTPUTS, bias=bias)
        self.post_init()


class MistralReasonEval(ReasonEvalModel, transformers.MistralPreTrainedModel):
    """ReasonEval-7B."""

    trunk = transformers.MistralModel


class LlamaReasonEval(ReasonEvalModel, transformers.LlamaPreTrainedModel):
    """ReasonEval-34B."""

    trunk = transformers.LlamaModel


class Qwen2ReasonEval(ReasonEvalModel, transformers.Qwen2PreTrainedModel):
    """ReasonEval's head on a Qwen2 trunk."""

    trunk = transformers.Qwen2Model


REWARD_MODELS: dict[str, type[ReasonEvalModel]] = {
    "llama": LlamaReasonEval,
    "mistral": MistralReasonEval,
    "qwen2": Qwen2ReasonEval,
}
"""The class for each `model_type` of a checkpoint's configuration."""
