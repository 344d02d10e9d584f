"""Checkpoints: where their files are, the hash of their weights, their chat templates, and types and devices."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.messages import reading
from prmcal.registry.models.gguf import (
    check_readable,
    content_hash,
    converted,
    converted_folder,
    gguf_file,
    gguf_identity,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NANO_FOLDER = Path(__file__).parents[1] / "nano" / "models"
NANO_PREFIX = "nano:"
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
"""The files that a model's output depends on: weights, configuration, tokenizer and chat template."""

SPREAD = "balanced"
"""The device of a model with its layers spread evenly over all GPUs."""

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""``auto`` is the type in which the weights are saved."""

Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$", description="auto, cpu, cuda or cuda:N")]
"""``auto`` is the GPU if there is one."""

SpreadableDevice = Annotated[
    str, Field(pattern=rf"^(auto|cpu|cuda(:[0-9]+)?|{SPREAD})$", description=f"auto, cpu, cuda, {SPREAD} or cuda:N")
]
"""A device, or SPREAD, for models that do not fit on one GPU."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w.-]+)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_SECONDS = 10.0
Message = Mapping[str, str]
"""A message of a chat, with `role` and `content`."""

_TODAY = date(2024, 7, 26)
"""The date that every template takes for today. The templates of Llama 3.1 and 3.2 write this date if they get none."""


def check_checkpoint(checkpoint: str) -> None:
    """Check that a checkpoint can exist, without network access.

    Raises an InvalidArgumentsError if the nano model, the folder, the GGUF file or its reader does not exist, or if the
    name is none of these.
    """
    if (file := gguf_file(checkpoint)) is not None:
        check_readable(file)
    else:
        _local_folder(checkpoint)


def resolve_checkpoint(checkpoint: str) -> Path:
    """Return the folder with the checkpoint's files. They are downloaded from the hub if they are not on this machine.

    Raises an InvalidArgumentsError if there is no such checkpoint, or if the download fails.
    """
    if (file := gguf_file(checkpoint)) is not None:
        return converted(file)
    folder = _local_folder(checkpoint)
    if folder is not None:
        return folder
    from huggingface_hub import snapshot_download

    name, commit = checkpoint.partition("@")[0], _hub_commit(checkpoint)
    try:
        return Path(snapshot_download(name, revision=commit, allow_patterns=list(MODEL_FILES)))
    except Exception as error:
        raise _not_on_hub(checkpoint, error) from error


def read_config(folder: Path) -> dict[str, Any]:
    """Return the ``config.json`` of a checkpoint's folder. Raises a DataError if it cannot be read."""
    file, advice = folder / "config.json", "Download or copy the checkpoint again."
    with reading(f"{file} cannot be read", advice):
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it must be a JSON object")
    return config


def folder_here(checkpoint: str) -> Path | None:
    """Return the folder of a checkpoint, or of an adapter of the hub, if it is on this machine.

    Raises an InvalidArgumentsError as :func:`check_checkpoint`.
    """
    if (file := gguf_file(checkpoint)) is not None:
        folder = converted_folder(file)
        return folder if folder.is_dir() else None
    local = _local_folder(checkpoint)
    if local is not None:
        return local
    from huggingface_hub import constants

    name, _, revision = checkpoint.partition("@")
    if not (Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import snapshot_download

    files: dict[str, Any] = {"allow_patterns": list(MODEL_FILES), "local_files_only": True}
    try:
        folder = Path(snapshot_download(name, revision=revision or None, **files))
    except Exception:  # The errors for "not in the cache" have no common base class.
        return None
    is_complete = any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))
    return folder if is_complete else None


def is_on_this_machine(checkpoint: str) -> bool:
    """Return whether a checkpoint, or an adapter of the hub, can be loaded without network access.

    Raises an InvalidArgumentsError as :func:`check_checkpoint`.
    """
    return folder_here(checkpoint) is not None


def is_hub_id(checkpoint: str) -> bool:
    """Return whether a text has the form of a hub id."""
    return _HUB_ID.fullmatch(checkpoint) is not None


def checkpoint_identity(checkpoint: str) -> str:
    """Return the identity of a model for job keys.

    For a folder, it is a hash of the contents of its model files (SHA-256, 16 hexadecimal digits), which does not
    depend on its path. For a GGUF file, it is a hash of the file, and for a hub id the commit. Raises an
    InvalidArgumentsError as :func:`resolve_checkpoint`.
    """
    if (file := gguf_file(checkpoint)) is not None:
        return gguf_identity(file)
    folder = _local_folder(checkpoint)
    if folder is None:
        return _hub_commit(checkpoint)
    digest = hashlib.sha256()
    for path in sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)}):
        digest.update(f"{path.name}:{content_hash(path)}\n".encode())
    return digest.hexdigest()[:16]


def _local_folder(checkpoint: str) -> Path | None:
    """The folder of a local or nano checkpoint. None for a hub id."""
    if checkpoint.startswith(NANO_PREFIX):
        name = checkpoint.removeprefix(NANO_PREFIX)
        shipped = sorted(path.parent.name for path in NANO_FOLDER.glob("*/config.json"))
        if name not in shipped:
            names = ", ".join(NANO_PREFIX + model for model in shipped) or "none"
            raise InvalidArgumentsError(f"There is no nano model {name!r}. Choose from: {names}.")
        return NANO_FOLDER / name
    path = Path(checkpoint).expanduser()
    if checkpoint and path.is_dir():
        if not (path / "config.json").is_file():
            adapter = (path / "adapter_config.json").is_file()
            raise InvalidArgumentsError(
                f"The checkpoint folder {checkpoint} has no config.json, so it is not a model."
                + " It has an adapter: merge it into its base model (PEFT's merge_and_unload)." * adapter
                + "".join(f" It has a GGUF file: name it, {file}." for file in sorted(path.glob("*.gguf"))[:1])
            )
        return path.resolve()
    if path.exists() or not is_hub_id(checkpoint):
        raise InvalidArgumentsError(
            f"There is no checkpoint folder {checkpoint!r}. Give an existing folder, a GGUF file, 'nano:NAME' for a "
            "model that ships with prmcal, or a hub id such as 'Qwen/Qwen2.5-Math-1.5B-Instruct'."
        )
    return None


@cache
def _hub_commit(checkpoint: str) -> str:
    """The commit of a hub id: pinned, downloaded, or else the newest on the hub."""
    from huggingface_hub import HfApi, constants

    name, _, revision = checkpoint.partition("@")
    if _COMMIT.fullmatch(revision):
        return revision
    repository = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    downloaded = repository / "refs" / (revision or "main")
    if downloaded.is_file():
        return downloaded.read_text().strip()
    try:
        commit = HfApi().model_info(name, revision=revision or None, timeout=_TIMEOUT_SECONDS).sha
    except Exception as error:
        raise _not_on_hub(checkpoint, error) from error
    return commit or revision


def _not_on_hub(checkpoint: str, error: Exception) -> InvalidArgumentsError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    name = checkpoint.partition("@")[0]
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, GatedRepoError):  # A subclass of RepositoryNotFoundError.
        advice = f"Accept its licence at https://huggingface.co/{name}, then run 'hf auth login'."
    elif isinstance(error, RepositoryNotFoundError):
        advice = "Check the name. A private repository needs 'hf auth login'."
    else:
        advice = f"Check the name, or run 'hf download {name}' with network access."
    return InvalidArgumentsError(
        f"The checkpoint {checkpoint!r} is not on this machine and cannot be downloaded from the Hugging Face hub "
        f"({reason}). {advice}"
    )


_DATE_CALL = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")


def pinned_date(form: str) -> str:
    """Write the date that every template takes for today, in a format of ``strftime``."""
    return _TODAY.strftime(form)


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], *, generating: bool = True) -> str:
    """Write a chat with the tokenizer's own template, up to the beginning of the assistant's turn if `generating`.

    A template that asks for today's date always gets the same date, so that prompts do not change.

    Raises a PluginFailedError if the template cannot write these messages.
    """
    fields = tuple(tuple(message.items()) for message in messages)
    return _chat_text(tokenizer, tokenizer.get_chat_template(), fields, generating)


@lru_cache(16)  # All prefixes of a question have the same chat before them.
def _chat_text(tokenizer: PreTrainedTokenizerBase, template: str, messages: tuple[Any, ...], generating: bool) -> str:
    from jinja2 import TemplateError

    chat = [dict(message) for message in messages]
    try:
        # Later versions of transformers pass no functions to a template, such as another strftime_now.
        template = _DATE_CALL.sub(lambda call: repr(pinned_date(call[2])), template)
        options = {"tokenize": False, "add_generation_prompt": generating, "chat_template": template}
        return str(tokenizer.apply_chat_template(chat, **options))
    except TemplateError as error:
        raise PluginFailedError(
            f"The chat template of {tokenizer.name_or_path} cannot write the roles "
            f"{', '.join(message['role'] for message in chat)}: {error}."
        ) from error


def chosen_layers(count: int, layers: str | Sequence[int]) -> list[int]:
    """Return the indices of the decoder layers that get an adapter, of `count`.

    Raises a PluginFailedError if the trunk does not have these layers.
    """
    if layers == "all":
        return list(range(count))
    layer_numbers = list(range(3, count, 4)) if layers == "every fourth" else [int(layer) for layer in layers]
    if not layer_numbers or max(layer_numbers) >= count:
        raise PluginFailedError(
            f"The PRM has the layers 0 to {count - 1}, but the 'layers' parameter is {layers!r}. Give a list of these "
            "layers, or 'all'."
        )
    return layer_numbers
