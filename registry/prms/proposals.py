"""Propose the entry of a checkpoint for a grid: what its files say of the PRM, and what they leave open."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
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
_SHEPHERD = {"every": r"shepherd", "turns": r"rlhflow|prm-(deepseek|mistral)-data"}
"""The `markers` of `shepherd` for causal language models, which nothing in their files tells from others, by names."""
_MARKERS = re.compile(r"extra_0|step|score|reward|prm|ки", re.IGNORECASE)
_GOOD = {"good", "correct", "right", "positive", "true", "yes", "valid", "+"}
_TRUNK = re.compile(r"(model|transformer)\.")
_CONTEXT = 4096
_WIDTH = 80
_UNDECIDED = {
    "qwen": "markers: 'last' (the default, as in the paper) is one marker behind a prefix, 'every' one behind each "
    "step, as in the documentation of Qwen2.5-Math-PRM. The scores differ. Take that of the training.",
    "reasoneval": "read_at: 'reference' (the default) reads as the authors' code does, 'end' at the last token.",
    "shepherd": "plugin: it follows from the name. The files are those of any causal language model.",
    "judge": "plugin: nothing in a causal language model says how it was trained. 'judge' asks it for Yes or No. "
    "'shepherd' reads '+' or '-' behind the tag ' ки' or another 'marker', or with 'markers: turns' in a chat.",
    "token-classifier": "marker, template: the text behind each step and around all of them. TRL writes a line break "
    'behind each step, "\\n", unless step_separator was set, and nothing around them.',
    "sequence-classifier": "template: what the model reads; by default the checkpoint's chat template, 'native'.",
}
"""The arguments that the files of a checkpoint do not decide, by the plugin."""


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
    heads = {name: shape for name, shape in shapes.items() if not _TRUNK.match(name)}
    kind = ", ".join(map(str, config.get("architectures") or ())) or "no architecture named"
    shown = ", ".join(f"{name} {list(shape)}" for name, shape in sorted(heads.items()) if len(shape) > 1)
    plugin = _plugin(folder, checkpoint, config, shapes)
    if not plugin:
        raise PluginFailedError(
            f"No PRM of prmcal reads {checkpoint}: {kind} of type {config.get('model_type')}, with the heads "
            f"{shown or 'of another model'}. Write a class for it: see the page 'Add a PRM'."
        )
    arguments = {"checkpoint": checkpoint, **_arguments(plugin, checkpoint, config, shapes)}
    name = re.sub(r"^nano:|@.*$", "", checkpoint).rstrip("/").rpartition("/")[2]
    entry = {"prms": [{"name": name, "plugin": plugin, "arguments": arguments}]}
    given = (
        shlex.quote(f"{key}={value if key == 'checkpoint' else json.dumps(value, ensure_ascii=False)}")
        for key, value in arguments.items()
    )
    return "\n".join(
        (
            _comment(f"{checkpoint}: {kind}. Heads: {shown or 'none'}."),
            yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120).rstrip(),
            _comment(f"Its files do not decide {_UNDECIDED[plugin]}"),
            f"# Try it: prmcal check {plugin} {' '.join(f'-a {each}' for each in given)}",
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
        one = len(shapes["score.weight"]) and shapes["score.weight"][0] == 1 and "score.bias" not in shapes
        sequence = "SequenceClassification" in architecture or ("Token" not in architecture and one)
        return "sequence-classifier" if sequence else "token-classifier"
    if f"{_VALUE_HEAD}.weight" in shapes:
        return "token-classifier"
    if "CausalLM" in architecture or "lm_head.weight" in shapes:
        return "shepherd" if _markers_by_name(checkpoint) else "judge"
    return ""


def _markers_by_name(checkpoint: str) -> str | None:
    return next(
        (name for name, form in _SHEPHERD.items() if re.search(form, checkpoint, re.IGNORECASE)), None
    )


def _arguments(
    plugin: str, checkpoint: str, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Return the arguments that the files of a checkpoint decide, or that need a value."""
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    found: dict[str, Any] = {}
    if plugin == "shepherd" and _markers_by_name(checkpoint) == "turns":
        found["markers"] = "turns"
    if plugin == "judge" and tokenizer.chat_template is None:
        found["chat"] = False
    if plugin == "sequence-classifier" and tokenizer.chat_template is None:
        found["template"] = "{{ question }}\n\n{{ solution }}"
    if plugin == "token-classifier":
        marks = [token for token in tokenizer.get_added_vocab() if _MARKERS.search(token)]
        if f"{_VALUE_HEAD}.weight" in shapes:
            found |= {"head": _VALUE_HEAD, "tokenized": "lines"}
        elif len(marks) == 1:
            found["marker"] = marks[0]
    names = output_names(config)
    if plugin.endswith("-classifier") and "head" not in found:
        if len(names) > 2 or (len(names) == 2 and are_named(names)):
            found["label"] = next((name for name in names if name.lower() in _GOOD), names[-1])
        if len(names) == 1 and config.get("problem_type") == "regression":
            found["scale"] = "probability"
    context = min(config.get(name) or _CONTEXT for name in ("max_position_embeddings", "sliding_window"))
    return found | ({"max_tokens": context} if context < _CONTEXT else {})


def _comment(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
