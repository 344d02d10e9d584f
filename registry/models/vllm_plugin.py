"""The plugin for vLLM, by the entry point ``vllm.general_plugins``. It registers the model of exported PRMs."""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Register the model. vLLM calls it in each of its processes."""
    from vllm import ModelRegistry

    from prmcal.registry.models.qwen import QUANTILE_ARCHITECTURE

    if QUANTILE_ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(
            QUANTILE_ARCHITECTURE, "prmcal.registry.models.vllm_models:Qwen2ForQuantileRewardModel"
        )
