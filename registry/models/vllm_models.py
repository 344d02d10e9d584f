"""Models for vLLM that are not part of it."""

from vllm.config import VllmConfig
from vllm.model_executor.layers.pooler.tokwise import pooler_for_token_classify
from vllm.model_executor.models.interfaces_base import default_pooling_type
from vllm.model_executor.models.qwen2_rm import Qwen2RewardBaseModel


@default_pooling_type(tok_pooling_type="ALL")
class Qwen2ForQuantileRewardModel(Qwen2RewardBaseModel):  # type: ignore[misc]
    """Qwen2.5-Math-PRM with one output for each of the `levels` in the configuration."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        settings = vllm_config.model_config
        settings.hf_config.num_labels = len(settings.hf_config.levels)
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self.pooler = pooler_for_token_classify(settings.pooler_config)
