"""Where a model's files are, and which model they hold.

A checkpoint is named in one of three ways: ``nano:NAME`` for a model that ships with the project, the path of a
folder, or the id of a repository on the Hugging Face hub, with ``@REVISION`` behind it if one is wanted. Only
safetensors, JSON and text files are ever read: no pickle, no code. Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from prmcal.errors import InvalidArgumentsError

__all__ = [
    "SPREAD",
    "check_checkpoint",
    "check_device",
    "check_dtype",
    "checkpoint_identity",
    "is_on_this_machine",
    "resolve_checkpoint",
]

NANO_FOLDER = Path(__file__).parents[1] / "nano" / "models"
NANO_PREFIX = "nano:"
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
"""What decides a model's output: weights, configuration, tokenizer and chat template."""

SPREAD = "balanced"
"""The device of a model whose layers are spread evenly over all GPUs."""

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?", re.ASCII)
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w.-]+)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_SECONDS = 10.0


def check_dtype(dtype: str) -> None:
    """Raise ValueError unless it is a type that weights can be loaded in, or ``auto``."""
    if dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise ValueError(
            f"The 'dtype' parameter must be auto, float32, bfloat16 or float16. Got {dtype!r} instead."
        )


def check_device(device: str, *further: str) -> None:
    """Raise ValueError unless it is ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or one of the further names."""
    if device not in further and not _DEVICE.fullmatch(device):
        names = ", ".join(["auto", "cpu", "cuda", *further])
        raise ValueError(f"The 'device' parameter must be {names} or cuda:N. Got {device!r} instead.")


def check_checkpoint(checkpoint: str) -> None:
    """Refuse a checkpoint that cannot exist, without asking the network.

    Raises
    ------
    InvalidArgumentsError
        If it names a nano model or a folder that is not there, or is neither of the three kinds.
    """
    _local_folder(checkpoint)


def resolve_checkpoint(checkpoint: str) -> Path:
    """The folder that holds the checkpoint's files, downloaded first if the hub has it and this machine has not.

    Raises
    ------
    InvalidArgumentsError
        If there is no such checkpoint, or it would have to be downloaded and cannot be.
    """
    folder = _local_folder(checkpoint)
    if folder is not None:
        return folder
    from huggingface_hub import snapshot_download

    name, commit = checkpoint.partition("@")[0], _hub_commit(checkpoint)
    try:
        return Path(snapshot_download(name, revision=commit, allow_patterns=list(MODEL_FILES)))
    except Exception as error:
        raise _not_on_hub(checkpoint, error) from error


def is_on_this_machine(checkpoint: str) -> bool:
    """Whether a checkpoint can be loaded without the network.

    Raises
    ------
    InvalidArgumentsError
        As :func:`check_checkpoint`.
    """
    if _local_folder(checkpoint) is not None:
        return True
    from huggingface_hub import constants

    name, _, revision = checkpoint.partition("@")
    if not (Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}").is_dir():
        return False
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            name, revision=revision or None, allow_patterns=list(MODEL_FILES), local_files_only=True
        )
    except Exception:  # Its errors for "not in the cache" have no common base.
        return False
    return (Path(folder) / "config.json").is_file()


def checkpoint_identity(checkpoint: str) -> str:
    """What tells this model from every other one, for job keys.

    Returns
    -------
    str
        For a folder a hash of the contents of its model files, wherever it lies (SHA-256, 16 hexadecimal digits);
        for a hub id its commit.

    Raises
    ------
    InvalidArgumentsError
        As :func:`resolve_checkpoint`.
    """
    folder = _local_folder(checkpoint)
    if folder is None:
        return _hub_commit(checkpoint)
    digest = hashlib.sha256()
    for path in sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)}):
        state = path.stat()
        digest.update(f"{path.name}:{_file_hash(path, state.st_mtime_ns, state.st_size)}\n".encode())
    return digest.hexdigest()[:16]


def _local_folder(checkpoint: str) -> Path | None:
    """The folder of a local or nano checkpoint; None for a hub id."""
    if checkpoint.startswith(NANO_PREFIX):
        return _nano_folder(checkpoint)
    path = Path(checkpoint).expanduser()
    if checkpoint and path.is_dir():
        if not (path / "config.json").is_file():
            raise InvalidArgumentsError(
                f"The checkpoint folder {checkpoint} holds no config.json: it is not a model."
            )
        return path.resolve()
    if path.exists() or not _HUB_ID.fullmatch(checkpoint):
        raise InvalidArgumentsError(
            f"There is no checkpoint folder {checkpoint!r}. Give an existing folder, 'nano:NAME' for a model that "
            "ships with prmcal, or a hub id such as 'Qwen/Qwen2.5-Math-1.5B-Instruct'."
        )
    return None


def _nano_folder(checkpoint: str) -> Path:
    name = checkpoint.removeprefix(NANO_PREFIX)
    shipped = sorted(path.parent.name for path in NANO_FOLDER.glob("*/config.json"))
    if name not in shipped:
        names = ", ".join(NANO_PREFIX + known for known in shipped) or "none"
        raise InvalidArgumentsError(f"There is no nano model {name!r}. There are: {names}.")
    return NANO_FOLDER / name


@cache
def _hub_commit(checkpoint: str) -> str:
    """The commit of a hub id: the pinned or downloaded one if this machine has it, else the hub's newest."""
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
    if isinstance(error, GatedRepoError):  # One of those that are not found, for the hub.
        advice = f"Accept its licence at https://huggingface.co/{name}, then run 'hf auth login'."
    elif isinstance(error, RepositoryNotFoundError):
        advice = "Check its name; one that is private needs 'hf auth login'."
    else:
        advice = f"Check its name, or run 'hf download {name}' where there is a network."
    return InvalidArgumentsError(
        f"The checkpoint {checkpoint!r} is neither on this machine nor could it be had from the Hugging Face hub "
        f"({reason}). {advice}"
    )


@cache
def _file_hash(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
