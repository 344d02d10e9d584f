"""What vLLM learns of prmcal, by the entry point ``vllm.general_plugins``: how to load exported PRMs."""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Called by vLLM in each of its processes."""
    from vllm import ModelRegistry

    from registry.prms.qwen_model import QUANTILE_ARCHITECTURE

    if QUANTILE_ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(
            QUANTILE_ARCHITECTURE, "registry.prms.vllm_models:Qwen2ForQuantileRewardModel"
        )
