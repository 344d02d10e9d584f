"""The adapter as files: PEFT's own two, the same bytes for the same adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig
from safetensors.torch import load_file, save_file

__all__ = ["ADAPTER_FILES", "read_adapter", "write_adapter"]

_WEIGHTS, _CONFIG = ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")


def write_adapter(folder: Path, adapter: Mapping[str, torch.Tensor], config: LoraConfig) -> None:
    """Write what ``PeftModel.from_pretrained`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in adapter.items()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    settings: dict[str, Any] = config.to_dict() | {"inference_mode": True}  # type: ignore[no-untyped-call]  # peft is half typed
    (folder / _CONFIG).write_text(json.dumps(settings, sort_keys=True, indent=1) + "\n")


def read_adapter(folder: Path) -> tuple[dict[str, torch.Tensor], LoraConfig]:
    """Weights on the CPU, and the configuration.

    Raises
    ------
    OSError, ValueError, TypeError or SafetensorError
        If the folder does not hold them.
    """
    settings = json.loads((folder / _CONFIG).read_text())
    config = PeftConfig.from_peft_type(**settings)  # type: ignore[no-untyped-call]
    if not isinstance(config, LoraConfig):
        raise ValueError(f"{_CONFIG} is not that of a LoRA adapter")
    return load_file(folder / _WEIGHTS), config
