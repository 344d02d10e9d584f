"""The files of an adapter in PEFT's format, also from the paper's code, and the checkpoints of a fit.

A calibrated PRM is exported as a checkpoint, with the adapter merged into the weights and one output per quantile.
"""

import copy
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from peft import LoraConfig, PeftConfig
from safetensors.torch import load_file, save_file
from torch import Tensor

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.model import adapted, quantile_model
from prmcal.registry.contracts.models import PRM
from prmcal.registry.messages import file_sha256, reading
from prmcal.registry.models.architectures import QUANTILE_ARCHITECTURE
from prmcal.registry.prms.qwen import QwenPRM

_OWN_HEAD = r"^score\.layers\."
_CARD = Path(__file__).with_name("card.md")
_WEIGHTS, _CONFIG = ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")

_LORA_WEIGHT = re.compile(r"base_model\.model\.(.+)\.lora_[AB]\.weight")
_HEAD = "base_model.model.score."
_LAST = f"{_HEAD}2.lora_B.weight"
_FROZEN = ("embed_tokens.weight", "embed_tokens.base_layer.weight")
_SEAL = "whole.json"


def export_checkpoint(
    prm: PRM, adapter: Mapping[str, Tensor], config: LoraConfig, level: float, card: Mapping[str, Any], folder: Path
) -> None:
    """Write a PRM with an adapter, its tokenizer and its card into a new or existing folder.

    The PRM and the adapted model share their weights, which the merge changes, so the PRM is closed afterwards. The
    card has the data and the options of the fit. `levels` are the levels of the outputs of the head, and `level` is the
    level of the reward. Raises a PluginFailedError if the PRM or its head has another form than Qwen2.5-Math-PRM, or
    `level` is not one of the levels.
    """
    levels = card["levels"]
    if not isinstance(prm, QwenPRM):
        raise PluginFailedError(
            f"Only PRMs in Qwen's format can be exported (plugin qwen). '{prm.plugin_name}' is a {type(prm).__name__}. "
            "Its adapter is in the run's folder, in PEFT's format."
        )
    if level not in levels:
        raise PluginFailedError(
            f"The calibrator does not predict the level {level:g}. Choose one of its levels: "
            f"{', '.join(map(str, levels))}."
        )
    base = quantile_model(prm, len(levels))
    kinds = [type(layer) for layer in base.score.layers]
    if base.score.log_odds is not None or kinds != [torch.nn.Linear, torch.nn.ReLU, torch.nn.Linear]:
        raise PluginFailedError(
            "Only a head like that of Qwen2.5-Math-PRM can be exported: two linear layers, with the difference of two "
            "outputs as log-odds."
        )
    settings: Any = copy.deepcopy(prm.modules[0].config)
    try:
        merged: Any = adapted(base, config, adapter).merge_and_unload()
        state = {
            re.sub(_OWN_HEAD, "score.", name): weight.detach().contiguous()
            for name, weight in merged.state_dict().items()
        }
    finally:
        prm.close()
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(state, folder, metadata={"format": "pt"})
    settings.architectures = [QUANTILE_ARCHITECTURE]
    settings.num_labels = len(levels)
    settings.levels = levels
    settings.reward_level = level
    settings.save_pretrained(folder)
    # safetensors lets only the owner read its files. The other files have the mode that the user's umask gives.
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / "config.json").stat().st_mode)
    prm.tokenizer.save_pretrained(folder)
    (folder / "calibrator.json").write_text(
        json.dumps({**card, "reward_level": level}, sort_keys=True, indent=1) + "\n"
    )
    prm_name = prm.checkpoint if not Path(prm.checkpoint).exists() else Path(prm.checkpoint).name
    rows = f" on {card['rows']:,} prefixes of {card['questions']:,} questions" if "rows" in card else ""
    text = _CARD.read_text(encoding="utf-8").format(
        name=prm_name.removeprefix("nano:").rpartition("/")[2],
        prm=prm_name,
        plugin=prm.plugin_name or "qwen",
        trained_on=rows,
        levels=", ".join(f"{level:g}" for level in levels),
        reward="the median" if level == 0.5 else f"the {level:g}-quantile",
        count=len(levels),
        max_tokens=prm.max_tokens,
        marker=prm.marker,
        markers=prm.markers,
        dtype=str(next(iter(state.values())).dtype).removeprefix("torch."),
        folder=folder.name,
    )
    (folder / "README.md").write_text(text)


def write_adapter(folder: Path, adapter: Mapping[str, Tensor], config: LoraConfig) -> None:
    """Write the files that ``PeftModel.from_pretrained`` reads. Equal adapters give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in adapter.items()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    settings: dict[str, Any] = config.to_dict() | {"inference_mode": True}
    (folder / _CONFIG).write_text(json.dumps(settings, sort_keys=True, indent=1) + "\n")


def read_adapter(folder: Path) -> tuple[dict[str, Tensor], LoraConfig]:
    """Return the weights, on the CPU, and the configuration. Raises an Exception if the folder holds no adapter."""
    settings = json.loads((folder / _CONFIG).read_text())
    config = PeftConfig.from_peft_type(**settings)
    if not isinstance(config, LoraConfig):
        raise ValueError(f"{_CONFIG} does not describe a LoRA adapter")
    return load_file(folder / _WEIGHTS), config


def read_published_adapter(folder: Path, quantiles: int) -> tuple[dict[str, Tensor], LoraConfig]:
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
    outputs = weights[_LAST].shape[0] if _LAST in weights else 0
    if outputs != quantiles:
        raise PluginFailedError(
            f"{folder} updates {outputs or 'no'} outputs of the head's last layer, {_LAST}, but there are {quantiles} "
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


def seal(checkpoint: Path, fit: str) -> None:
    """Mark a checkpoint as complete: write the hashes of its files, and the fit that it belongs to."""
    files = {path.name: file_sha256(path) for path in sorted(checkpoint.iterdir()) if path.is_file()}
    half = checkpoint / f"{_SEAL}.part"
    half.write_text(json.dumps({"fit": fit, "files": files}))
    half.rename(checkpoint / _SEAL)


def newest_whole(folder: Path, fit: str) -> Path | None:
    """Return the newest complete checkpoint of a fit, or None. All other checkpoints in the folder are removed."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    newest = next((checkpoint for checkpoint in checkpoints if _is_whole(checkpoint, fit)), None)
    for checkpoint in checkpoints:
        if checkpoint != newest:
            shutil.rmtree(checkpoint, ignore_errors=True)
    return newest


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(checkpoint: Path, fit: str) -> bool:
    try:
        sealed = json.loads((checkpoint / _SEAL).read_text())
        return sealed["fit"] == fit and all(
            file_sha256(checkpoint / name) == digest for name, digest in sealed["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
