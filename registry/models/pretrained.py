"""Load tokenizers and models of transformers from local files."""

from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from prmcal.errors import ModelBrokenError, PluginFailedError
from prmcal.registry.models.checkpoints import SPREAD, read_config, resolve_checkpoint
from prmcal.registry.models.files import advice_on_kind, check_tokenizer
from prmcal.registry.models.memory import free_reserved

_UNUSED_HEAD = "lm_head."  # Reward models are published with the language-model head of their base model.


def choose_device(device: str) -> torch.device:
    """Return the device with a name. ``auto`` is the GPU if there is one.

    Raises a PluginFailedError if the device is a GPU and the machine has none.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise PluginFailedError(
            f"The device {device!r} does not exist: torch finds no GPU. Set 'device' to auto or cpu."
        )
    return torch.device(device)


def load_tokenizer(checkpoint: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint.

    Raises a PluginFailedError or a DataError if the tokenizer is missing or cannot be read.
    """
    folder = resolve_checkpoint(checkpoint)
    check_tokenizer(folder, checkpoint)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise PluginFailedError(f"The tokenizer of the checkpoint {checkpoint} cannot be read: {error}") from error
    return tokenizer


def load_pretrained(model_class: Any, checkpoint: str, dtype: str, device: str, left_out: str = "") -> PreTrainedModel:
    """Load a model in evaluation mode. All of its weights must come from the checkpoint.

    The class derives from transformers' PreTrainedModel, or is an Auto class. `left_out` is the name of a part of the
    checkpoint that the class has not. The other arguments are as in the constructors of the plugins. Raises a
    PluginFailedError if the checkpoint cannot be read, lacks weights of the class, or has a different head. Or if the
    device does not exist, or is too small.
    """
    folder = resolve_checkpoint(checkpoint)
    placement = {"device_map": SPREAD} if device == SPREAD else {}
    target = None if placement else choose_device(device)
    if dtype == "auto" and target is not None and target.type == "cpu":
        dtype = "float32"  # Most CPUs compute in bfloat16 several times more slowly.
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    # This silences the report of missing and unexpected weights, which raise errors below.
    logging.set_verbosity_error()
    try:
        model, report = model_class.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # An error below names the weight.
            **placement,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        # Such as memory that another process uses.
        error_class = ModelBrokenError if isinstance(error, RuntimeError) else PluginFailedError
        raise error_class(f"The checkpoint {checkpoint} cannot be loaded: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
    allowed_names = f"{model.base_model_prefix}.", _UNUSED_HEAD, f"{left_out}." if left_out else _UNUSED_HEAD
    unlike = [f"the weight {name} is missing" for name in sorted(report["missing_keys"])]
    unlike += [
        f"the weight {name} has the shape {tuple(shape)} instead of {tuple(expected)}"
        for name, shape, expected in sorted(report["mismatched_keys"])
    ]
    unknown = (name for name in sorted(report["unexpected_keys"]) if not name.startswith(allowed_names))
    unlike += [f"the weight {name} is unknown" for name in unknown]
    if unlike:
        raise PluginFailedError(
            f"The checkpoint {checkpoint} is another kind of model than {type(model).__name__}. The first of "
            f"{len(unlike)} differences: {unlike[0]}. {advice_on_kind(read_config(folder), type(model).__name__)}"
        )
    if target is None:
        _check_spread(model, checkpoint)
    loaded: PreTrainedModel = (model if target is None else model.to(target)).eval()
    return loaded


def move_to(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Move a part of a model to a device, and remove the hooks that moved its inputs."""
    from accelerate.hooks import remove_hook_from_module

    remove_hook_from_module(module, recurse=True)
    return module.to(device)


def unload(plugin: Any, name: str) -> None:
    """Delete the model in a plugin's attribute, and release its GPU memory, which an engine may need."""
    vars(plugin).pop(name, None)
    free_reserved()


def _check_spread(model: PreTrainedModel, checkpoint: str) -> None:
    """Raise PluginFailedError if the model does not fit on the GPUs. Passes with parts on the CPU would be slow."""
    places = getattr(model, "hf_device_map", {})  # A model on one device has no map.
    outside = [name for name, place in places.items() if place in ("cpu", "disk")]
    if outside and torch.cuda.is_available():
        raise PluginFailedError(
            f"The checkpoint {checkpoint} does not fit on the {torch.cuda.device_count()} GPUs of this machine: there "
            f"is no space for {', '.join(outside[:3])}. Free their memory, or use more or larger GPUs."
        )
