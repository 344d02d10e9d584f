"""Propose the entry of a checkpoint for a grid: what its files say of the PRM, and what they leave open."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.llms.prompts import NATIVE
from prmcal.registry.models.checkpoints import folder_here, read_config
from prmcal.registry.models.files import check_head, check_tokenizer, weight_shapes
from prmcal.registry.plugins import prms
from prmcal.registry.prms.classifiers import are_named, output_names
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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


def proposed_entry(checkpoint: str) -> str:
    """Return the entry of a PRM's checkpoint in a grid as YAML, with comments on what its files say and leave open.

    Raises an InvalidArgumentsError if there is no such checkpoint on this machine. Raises a DataError or a
    PluginFailedError if its files are incomplete, or no plugin reads such a model.
    """
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
    plugin = _plugin(checkpoint, config, shapes)
    if not plugin:
        raise PluginFailedError(
            f"No PRM of prmcal reads {checkpoint}: {kind} of type {config.get('model_type')}, with the heads "
            f"{shown or 'of another model'}. Write a class for it: see the page 'Add a PRM'."
        )
    arguments: dict[str, Any] = {"checkpoint": checkpoint}
    if plugin == "token-classifier" and f"{_VALUE_HEAD}.weight" in shapes:
        arguments |= {"head": _VALUE_HEAD, "tokenized": "lines"}
    notes = dict(_notes(plugin, checkpoint, config, arguments))
    context = min(config.get(name) or _CONTEXT for name in ("max_position_embeddings", "sliding_window"))
    if context < _CONTEXT:
        arguments["max_tokens"] = context
    return _rendered(checkpoint, f"{checkpoint}: {kind}. Heads: {shown or 'none'}.", plugin, arguments, notes)


def _plugin(checkpoint: str, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the plugin that reads a checkpoint; empty if there is none."""
    folder, model_type = folder_here(checkpoint), config.get("model_type")
    assert folder is not None
    for name in (name for name, trunks in _TRUNKS.items() if model_type in trunks):
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


def _notes(
    plugin: str, checkpoint: str, config: Mapping[str, Any], arguments: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the arguments that the files do not decide, and what does. Those that need a value go into `arguments`."""
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    if plugin == "qwen":
        if config.get("levels"):
            yield (
                "reward",
                f"this exported PRM has the levels {config['levels']} and takes {config['reward_level']}.",
            )
        yield (
            "markers",
            "'last' (the default, as in the paper) is one marker behind a prefix, 'every' one behind each step, as in "
            "the documentation of Qwen2.5-Math-PRM. The scores differ. Take that of the training.",
        )
        if "<extra_0>" not in tokenizer.get_vocab():
            yield "marker", "the tokenizer has no <extra_0>. A class derived from QwenPRM sets another one."
    elif plugin == "reasoneval":
        yield "read_at", "'reference' (the default) reads as the authors' code does, 'end' at the last token."
    elif plugin.endswith("-classifier"):
        yield from _of_classifier(plugin, config, tokenizer, arguments)
    elif plugin == "judge":
        yield (
            "plugin",
            "nothing in a causal language model says how it was trained. 'judge' asks it for Yes or No. 'shepherd' "
            "reads '+' or '-' behind the tag ' ки' or another 'marker', or with 'markers: turns' as the answer of a "
            "chat.",
        )
        if tokenizer.chat_template is None:
            arguments["chat"] = False
        yield "template, right, wrong", "what it is asked, and the two answers; by default Yes and No."
    elif plugin == "shepherd":
        if _markers_by_name(checkpoint) == "turns":
            arguments["markers"] = "turns"
        yield "plugin", "it follows from the name. The files are those of any causal language model."


def _of_classifier(
    plugin: str, config: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, arguments: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    if "head" in arguments:
        yield "tokenized", "'lines' is the text of Skywork's PRMs. TRL's text is the default."
        return
    names = output_names(config)
    if plugin == "token-classifier":
        marks = [token for token in tokenizer.get_added_vocab() if _MARKERS.search(token)]
        if len(marks) == 1:
            arguments["marker"] = marks[0]
        seen = f"The tokenizer has {', '.join(marks)}. " if marks else ""
        yield (
            "marker",
            f'{seen}TRL writes a line break behind each step, "\\n", unless step_separator was set.',
        )
    if len(names) > 2 or (len(names) == 2 and are_named(names)):
        good = [name for name in names if name.lower() in _GOOD]
        arguments["label"] = good[0] if good else names[-1]
        yield "label", f"the output for a good step, one or more of {', '.join(names)}."
    if len(names) == 1:
        if config.get("problem_type") == "regression":
            arguments["scale"] = "probability"
        yield (
            "scale",
            "'logit' or 'probability', the meaning of the output. A Bradley-Terry reward is a logit.",
        )
    if tokenizer.chat_template is None and plugin == "sequence-classifier":
        arguments["template"] = "{{ question }}\n\n{{ solution }}"
    default = (
        NATIVE if plugin == "sequence-classifier" else "question and solution without a text around them"
    )
    yield (
        "template",
        f"what the model reads; by default {default}. '{NATIVE}' is the checkpoint's chat template.",
    )


def _rendered(
    checkpoint: str, found: str, plugin: str, arguments: Mapping[str, Any], notes: Mapping[str, str]
) -> str:
    import yaml

    name = re.sub(r"^nano:|@.*$", "", checkpoint).rstrip("/").rpartition("/")[2]
    entry = {"prms": [{"name": name, "plugin": plugin, "arguments": dict(arguments)}]}
    lines = [_comment(found), yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120).rstrip()]
    if notes:
        lines.append("# Its files do not decide:")
        lines += [_comment(f"- {argument}: {text}") for argument, text in notes.items()]
    given = []
    for key, value in arguments.items():
        text = value if key == "checkpoint" else json.dumps(value, ensure_ascii=False)
        given.append(f"-a {shlex.quote(f'{key}={text}')}")
    return "\n".join([*lines, f"# Try it: prmcal check {plugin} {' '.join(given)}"])


def _comment(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
