"""Propose the entry of a checkpoint for a grid: what its files say of the PRM, and what they leave open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.models.checkpoints import folder_here, read_config
from prmcal.registry.models.files import check_head, check_tokenizer, weight_shapes
from prmcal.registry.plugins import prms
from prmcal.registry.prms.classifiers import are_named, output_names
from prmcal.registry.prms.transformers import TransformersPRM

_TRUNKS = {"qwen": ("qwen2",), "reasoneval": ("qwen2", "llama", "mistral")}
"""The types of models whose heads each plugin knows by their weights."""
_VALUE_HEAD = "v_head.summary"
"""The head of Skywork's PRMs, and of TRL's models with a value head."""
_SHEPHERD = re.compile("shepherd", re.IGNORECASE)
_RLHFLOW = re.compile("rlhflow|prm-(deepseek|mistral)-data", re.IGNORECASE)
"""Causal language models for `shepherd`, which nothing in their files tells from others, by their names."""
_MARKERS = re.compile(r"extra_0|step|score|reward|prm|ки", re.IGNORECASE)
_GOOD = {"good", "correct", "right", "positive", "true", "yes", "valid", "+"}
_CONTEXT = 4096
_UNDECIDED = {
    "qwen": "markers (one behind a prefix, or behind every step)",
    "reasoneval": "read_at",
    "shepherd": "the plugin, which follows from the name",
    "judge": "the plugin: a model that was trained as a PRM may be one for 'shepherd'",
    "token-classifier": "marker and template (by default those of TRL's PRMTrainer)",
    "sequence-classifier": "template (by default the chat template)",
}
"""What the files of a checkpoint do not decide, by the plugin."""


def proposed_entry(checkpoint: str) -> str:
    """Return the entry of a PRM's checkpoint in a grid as YAML, with comments on what its files say and leave open.

    Raises an InvalidArgumentsError if there is no such checkpoint on this machine. Raises a DataError or a
    PluginFailedError if its files are incomplete, or no plugin reads such a model.
    """
    import yaml

    folder = folder_here(checkpoint)
    if folder is None:
        raise InvalidArgumentsError(
            f"{checkpoint} is not on this machine, so there is nothing to look into. Run: "
            f"hf download {checkpoint.partition('@')[0]}"
        )
    config, shapes = read_config(folder), weight_shapes(folder)
    check_tokenizer(folder, checkpoint)
    plugin = _plugin(folder, checkpoint, config, shapes)
    if not plugin:
        heads = ", ".join(
            f"{name} {list(shape)}" for name, shape in sorted(shapes.items()) if not name.startswith("model.")
        )
        raise PluginFailedError(
            f"No PRM of prmcal reads {checkpoint}, of type {config.get('model_type')}, with the heads "
            f"{heads or 'of another model'}. Write a class for it: see the page 'Add a PRM'."
        )
    arguments = {"checkpoint": checkpoint, **_arguments(plugin, checkpoint, config, shapes)}
    name = re.sub(r"^nano:|@.*$", "", checkpoint).rstrip("/").rpartition("/")[2]
    entry = {"prms": [{"name": name, "plugin": plugin, "arguments": arguments}]}
    return "\n".join(
        (
            yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120).rstrip(),
            f"# Its files do not decide {_UNDECIDED[plugin]}.",
            f"# What each argument means: prmcal list prm {plugin}",
        )
    )


def _plugin(
    folder: Path, checkpoint: str, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
) -> str:
    """Return the plugin that reads a checkpoint; empty if there is none."""
    for name, trunks in _TRUNKS.items():
        if config.get("model_type") in trunks:
            reader = prms.create(name, checkpoint=checkpoint)
            assert isinstance(reader, TransformersPRM)
            with suppress(PluginFailedError, DataError):
                check_head(folder, checkpoint, reader.head_weights(), name)
                return name
    architecture = " ".join(map(str, config.get("architectures") or ()))
    if "score.weight" in shapes:
        return "sequence-classifier" if "SequenceClassification" in architecture else "token-classifier"
    if f"{_VALUE_HEAD}.weight" in shapes:
        return "token-classifier"
    if "CausalLM" in architecture or "lm_head.weight" in shapes:
        return "shepherd" if _SHEPHERD.search(checkpoint) or _RLHFLOW.search(checkpoint) else "judge"
    return ""


def _arguments(
    plugin: str, checkpoint: str, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Return the arguments that the files of a checkpoint decide, or that need a value."""
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer, arguments = load_tokenizer(checkpoint), dict[str, Any]()
    if plugin == "shepherd" and _RLHFLOW.search(checkpoint):
        arguments["markers"] = "turns"
    if plugin == "judge" and tokenizer.chat_template is None:
        arguments["chat"] = False
    if plugin == "sequence-classifier" and tokenizer.chat_template is None:
        arguments["template"] = "{{ question }}\n\n{{ solution }}"
    if f"{_VALUE_HEAD}.weight" in shapes:
        arguments |= {"head": _VALUE_HEAD, "tokenized": "lines"}
    elif plugin == "token-classifier":
        marks = [token for token in tokenizer.get_added_vocab() if _MARKERS.search(token)]
        arguments |= {"marker": marks[0]} if len(marks) == 1 else {}
    names = output_names(config)
    if plugin.endswith("-classifier") and "head" not in arguments:
        if len(names) > 2 or (len(names) == 2 and are_named(names)):
            arguments["label"] = next((name for name in names if name.lower() in _GOOD), names[-1])
        if len(names) == 1 and config.get("problem_type") == "regression":
            arguments["scale"] = "probability"
    context = min(config.get(name) or _CONTEXT for name in ("max_position_embeddings", "sliding_window"))
    return arguments | ({"max_tokens": context} if context < _CONTEXT else {})
