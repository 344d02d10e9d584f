"""Checks of the files of a checkpoint before its model is loaded: headers of weights, and the tokenizer."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from prmcal.errors import DataError, PluginFailedError, PrmcalError
from prmcal.registry.contracts.plugin import errors_of
from prmcal.registry.messages import LFS_POINTER, reading, refuse_pointer
from prmcal.registry.models.checkpoints import folder_here, read_config

Head = Mapping[str, int]
"""The number of outputs of each weight of a head, by the weight's name; 0 for any number."""

LANGUAGE_HEAD: Head = {"lm_head.weight": 0}
"""The head of a causal language model."""
_SCORING_HEADS = {"score.weight", "score.0.weight", "score_head.weight", "v_head.summary.weight"}
_PRM_PLUGINS = {
    "ForTokenClassification": "token-classifier",
    "ForProcessRewardModel": "qwen",
    "ReasonEval": "reasoneval",
    "ForSequenceClassification": "sequence-classifier",
    "ForCausalLM": "shepherd or judge",
}
"""The plugins that read a kind of model, by a part of the name of its architecture."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")
_INDEX = "model.safetensors.index.json"
_AGAIN = "Download or copy the checkpoint again."


def checkpoint_problems(checkpoint: str, head: Callable[[], Head], reader: str) -> list[PrmcalError]:
    """Return why a checkpoint on this machine cannot be loaded, from its files: no weight is read.

    `head` returns the head that the `reader`, such as "the PRM 'qwen'", needs.
    """
    folder = folder_here(checkpoint)
    if folder is None:
        return []
    return errors_of(
        lambda: check_head(folder, checkpoint, head(), reader), partial(check_tokenizer, folder, checkpoint)
    )


def tokenizer_problems(checkpoint: str) -> list[PrmcalError]:
    """Return why the tokenizer of a checkpoint on this machine cannot be loaded. The weights may be absent."""
    folder = folder_here(checkpoint)
    return [] if folder is None else errors_of(partial(check_tokenizer, folder, checkpoint))


def check_tokenizer(folder: Path, checkpoint: str) -> None:
    """Raise an error if a checkpoint has no tokenizer, or its file is damaged."""
    files = [folder / name for name in _TOKENIZER_FILES if (folder / name).is_file()]
    # Without these files, transformers would create an empty tokenizer.
    if not files:
        raise PluginFailedError(
            f"The checkpoint {checkpoint} has no tokenizer file: one of {', '.join(_TOKENIZER_FILES)}. Copy the "
            "tokenizer of its base model into its folder."
        )
    for file in files:
        with file.open("rb") as stream:
            refuse_pointer(file, stream.read(len(LFS_POINTER)))
        if file.suffix == ".json":
            _read_json(file)


def check_head(folder: Path, checkpoint: str, head: Head, reader: str) -> None:
    """Raise an error unless the weights of a checkpoint are whole and have a head; see `checkpoint_problems`."""
    config, shapes = read_config(folder), weight_shapes(folder)
    kind = ", ".join(map(str, config.get("architectures") or ())) or "an unknown architecture"
    advice = advice_on_kind(config, "ForCausalLM" if head is LANGUAGE_HEAD else "")
    message = f"The checkpoint {checkpoint} is another kind of model ({kind}): {reader}"
    for name, outputs in head.items():
        if head is LANGUAGE_HEAD and (
            config.get("tie_word_embeddings") is not False or "model.embed_tokens.weight" not in shapes
        ):
            continue  # Its head may be its embeddings, or have another name.
        shape = shapes.get(name)
        if shape is None or (outputs and shape[:1] != (outputs,)):
            problem = "there is none" if shape is None else f"its shape is {list(shape)}"
            weight = f"{name} of shape [{outputs}, ...]" if outputs else name
            raise PluginFailedError(f"{message} needs the weight {weight}, but {problem}. {advice}")
    unread = sorted(_SCORING_HEADS & shapes.keys() - head.keys()) if head else []
    if unread:
        raise PluginFailedError(f"{message} does not read its weight {unread[0]}. {advice}")


def advice_on_kind(config: Mapping[str, Any], expected: str) -> str:
    """Advise on a checkpoint that is not of the `expected` architecture: name the PRM plugin for its own."""
    kind = " ".join(map(str, config.get("architectures") or ()))
    plugins = (
        f", or the PRM plugin {plugin}"
        for part, plugin in _PRM_PLUGINS.items()
        if part in kind and part not in expected
    )
    return f"Choose a checkpoint of the right kind{next(plugins, '')}."


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights in a checkpoint's folder by their names, from the headers of its files.

    Raises a DataError if there are no weights, a file is absent or shorter than its header says, or it is a pointer of
    Git LFS.
    """
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(folder):
        with reading(f"{file} cannot be read", _AGAIN):
            with file.open("rb") as stream:
                refuse_pointer(file, stream.read(len(LFS_POINTER)))
            with safe_open(file, "numpy") as weights:
                shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    return shapes


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a checkpoint. Raises a DataError if there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if (folder / _INDEX).is_file():
        index = _read_json(folder / _INDEX)
        with reading(f"{folder / _INDEX} cannot be read", _AGAIN):
            files = [folder / name for name in sorted(set(index["weight_map"].values()))]
    elif (folder / "model.safetensors").is_file():
        files = [folder / "model.safetensors"]
    if not files:
        raise DataError(f"{folder} has no weights (*.safetensors). {_AGAIN} Weights as a pickle (.bin) are not read.")
    return files


def _read_json(file: Path) -> Any:
    with reading(f"{file} cannot be read", _AGAIN):
        content = file.read_bytes()
        refuse_pointer(file, content)
        return json.loads(content)
