"""Loading pretrained models with transformers' own classes: safetensors only, no remote code, no progress bars."""

from __future__ import annotations

import gc
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from prmcal.errors import PluginFailedError
from prmcal.registry.models.checkpoints import SPREAD, resolve_checkpoint

__all__ = ["choose_device", "load_pretrained", "load_tokenizer", "move_to", "unload"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")

_UNUSED_HEAD = "lm_head."  # Reward models are published with the one that they were trained from.


def choose_device(device: str) -> torch.device:
    """The device of a name; ``auto`` is the GPU if there is one.

    Raises
    ------
    PluginFailedError
        If it is a GPU that is not there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise PluginFailedError(
            f"The device {device!r} is not there: torch sees no GPU. Use device: auto or cpu."
        )
    return torch.device(device)


def load_tokenizer(checkpoint: str) -> PreTrainedTokenizerBase:
    """The tokenizer that lies beside a checkpoint's weights."""
    folder = resolve_checkpoint(checkpoint)
    # Without one, transformers would make up an empty tokenizer.
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise PluginFailedError(
            f"The checkpoint {checkpoint} has no tokenizer: it holds none of {', '.join(_TOKENIZER_FILES)}. Copy those "
            "of the model that it was made from beside its weights."
        )
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise PluginFailedError(
            f"The checkpoint {checkpoint} has no tokenizer that can be read: {error}"
        ) from error
    return tokenizer


def load_pretrained(model_class: Any, checkpoint: str, dtype: str, device: str) -> PreTrainedModel:
    """A model in evaluation mode, with every one of its weights taken from the checkpoint.

    Parameters
    ----------
    model_class : type
        A model class of transformers, one derived from its PreTrainedModel, or an Auto class.
    checkpoint, dtype, device : str
        As the plugins take them.

    Raises
    ------
    PluginFailedError
        If the checkpoint is unreadable, lacks weights that the class needs or has a head of another kind, or if the
        device is not there or too small.
    """
    folder = resolve_checkpoint(checkpoint)
    placement = {"device_map": SPREAD} if device == SPREAD else {}
    target = None if placement else choose_device(device)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers is half typed
    verbosity = logging.get_verbosity()
    # Its report of unexpected and missing weights; the missing ones are raised below.
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        model, report = model_class.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # raised below, with the weight's name
            **placement,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise PluginFailedError(f"The checkpoint {checkpoint} cannot be loaded: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
    missing = sorted(report["missing_keys"])
    if missing:
        raise PluginFailedError(
            f"The checkpoint {checkpoint} lacks {len(missing)} weights that {type(model).__name__} needs, "
            f"{', '.join(missing[:3])} among them: it is a model of another kind."
        )
    if report["mismatched_keys"]:
        weight, found, expected = sorted(report["mismatched_keys"])[0]
        raise PluginFailedError(
            f"The weight {weight} of the checkpoint {checkpoint} has the shape {tuple(found)}, where "
            f"{type(model).__name__} needs {tuple(expected)}: it is a model of another kind."
        )
    trunk = f"{model.base_model_prefix}."
    foreign = sorted(name for name in report["unexpected_keys"] if not name.startswith((trunk, _UNUSED_HEAD)))
    if foreign:
        raise PluginFailedError(
            f"The checkpoint {checkpoint} has {len(foreign)} weights that {type(model).__name__} has no place for, "
            f"{', '.join(foreign[:3])} among them: it is a model of another kind."
        )
    if target is None:
        _check_spread(model, checkpoint)
    loaded: PreTrainedModel = (model if target is None else model.to(target)).eval()
    return loaded


def move_to(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """A part of a model on a device of its own, where its inputs have to be: its model's placement is forgotten."""
    from accelerate.hooks import remove_hook_from_module

    remove_hook_from_module(module, recurse=True)
    return module.to(device)


def unload(plugin: Any, name: str) -> None:
    """Drop the model that is a plugin's attribute, and give its memory back: an engine may need it."""
    vars(plugin).pop(name, None)
    gc.collect()
    torch.cuda.empty_cache()  # Does nothing where there is no GPU.


def _check_spread(model: PreTrainedModel, checkpoint: str) -> None:
    """Refuse a model that found no room on the GPUs, parts of which would be copied there for every pass."""
    places = getattr(model, "hf_device_map", {})  # There is none where all is on one device.
    outside = [name for name, place in places.items() if place in ("cpu", "disk")]
    if outside and torch.cuda.is_available():
        raise PluginFailedError(
            f"The GPUs here, {torch.cuda.device_count()} in all, do not hold the checkpoint {checkpoint}: "
            f"{', '.join(outside[:3])} found no room. Free their memory, or use more or larger ones."
        )
