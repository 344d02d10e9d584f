"""The files of an adapter in PEFT's format, also those of the paper's code, and the checkpoints of a fit."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig
from safetensors.torch import load_file, save_file

from prmcal.errors import PluginFailedError
from prmcal.registry.messages import reading

_WEIGHTS, _CONFIG = ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")

_LORA_WEIGHT = re.compile(r"base_model\.model\.(.+)\.lora_[AB]\.weight")
_HEAD = "base_model.model.score."
_LAST = f"{_HEAD}2.lora_B.weight"
_FROZEN = ("embed_tokens.weight", "embed_tokens.base_layer.weight")


def write_adapter(folder: Path, adapter: Mapping[str, torch.Tensor], config: LoraConfig) -> None:
    """Write the files that ``PeftModel.from_pretrained`` reads. Equal adapters give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in adapter.items()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    settings: dict[str, Any] = config.to_dict() | {"inference_mode": True}
    (folder / _CONFIG).write_text(json.dumps(settings, sort_keys=True, indent=1) + "\n")


def read_adapter(folder: Path) -> tuple[dict[str, torch.Tensor], LoraConfig]:
    """Return the weights, on the CPU, and the configuration.

    Raises an Exception if the folder does not hold an adapter.
    """
    settings = json.loads((folder / _CONFIG).read_text())
    config = PeftConfig.from_peft_type(**settings)
    if not isinstance(config, LoraConfig):
        raise ValueError(f"{_CONFIG} is not that of a LoRA adapter")
    return load_file(folder / _WEIGHTS), config


def read_published_adapter(folder: Path, quantiles: int) -> tuple[dict[str, torch.Tensor], LoraConfig]:
    """Read an adapter that the paper's code trained, and rename its weights.

    In the paper's code, the head is the PRM's Sequential, ``score.0`` to ``score.2``, and its last layer has a low-rank
    update too. Here, the head is the `layers` of a :class:`~prmcal.registry.calibrators.lora.model.QuantileHead`.

    Raises a PluginFailedError if the folder does not hold such an adapter.
    """
    with reading(f"{folder} does not hold an adapter that PEFT wrote", kind=PluginFailedError):
        weights, config = read_adapter(folder)
    # PEFT saves the embeddings if the vocabulary was extended. They are the PRM's own, without an update.
    weights = {name: weight for name, weight in weights.items() if not name.endswith(_FROZEN)}
    foreign = [name for name in weights if not _LORA_WEIGHT.fullmatch(name)]
    special = [name for name in ("use_dora", "rank_pattern", "alpha_pattern") if getattr(config, name)]
    if foreign or special:
        raise PluginFailedError(
            f"{folder} has more than low-rank updates of linear layers: {', '.join([*foreign, *special][:3])}."
        )
    found = weights[_LAST].shape[0] if _LAST in weights else 0
    if found != quantiles:
        raise PluginFailedError(
            f"{folder} updates {found or 'no'} outputs of the head's last layer, {_LAST}, but there are {quantiles} "
            "quantiles. Set 'quantiles' to the levels that the adapter was trained for."
        )
    renamed = {name.replace(_HEAD, f"{_HEAD}layers."): weight for name, weight in weights.items()}
    matches = [_LORA_WEIGHT.fullmatch(name) for name in renamed]
    modules = sorted({re.escape(match[1]) for match in matches if match})
    return renamed, LoraConfig(
        r=config.r,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        use_rslora=config.use_rslora,
        target_modules="|".join(f"(?:{module})" for module in modules),
        inference_mode=True,
    )


_SEAL = "whole.json"


def seal(checkpoint: Path, fit: str) -> None:
    """Mark a checkpoint as complete: write the hashes of its files, and the fit that it belongs to."""
    files = {path.name: file_hash(path) for path in sorted(checkpoint.iterdir()) if path.is_file()}
    half = checkpoint / f"{_SEAL}.part"
    half.write_text(json.dumps({"fit": fit, "files": files}))
    half.rename(checkpoint / _SEAL)


def newest_whole(folder: Path, fit: str) -> Path | None:
    """Return the newest complete checkpoint of a fit, or None. All other checkpoints in the folder are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    newest = next((checkpoint for checkpoint in found if _is_whole(checkpoint, fit)), None)
    for checkpoint in found:
        if checkpoint != newest:
            shutil.rmtree(checkpoint, ignore_errors=True)
    return newest


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(checkpoint: Path, fit: str) -> bool:
    try:
        sealed = json.loads((checkpoint / _SEAL).read_text())
        return sealed["fit"] == fit and all(
            file_hash(checkpoint / name) == digest for name, digest in sealed["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
