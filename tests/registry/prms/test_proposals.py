"""The entry that `prmcal doctor CHECKPOINT` proposes: known families and classifiers, and what files do not decide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.plugins import prms
from prmcal.registry.prms.proposals import proposed_entry
from tests.conftest import Prmcal
from tests.registry.prms.prm_layouts import (
    LLAMA_31,
    REASONEVAL_7B,
    SHEPHERD,
    write_checkpoint,
    write_tokenizer,
)

SKYWORK = {**LLAMA_31, "model_type": "qwen2", "architectures": ["Qwen2ForPrmModel"], "rope_scaling": None}


def layout(
    folder: Path, config: Mapping[str, Any], head: Mapping[str, tuple[int, ...]] | None = None
) -> Path:
    folder.mkdir(parents=True)
    write_tokenizer(folder, "<s>")
    write_checkpoint(folder, config, head)
    return folder


def proposal(folder: Path | str) -> tuple[str, dict[str, Any], str]:
    """The plugin and the arguments of a proposed entry, which can be built and finds its files whole, and the text."""
    text = proposed_entry(str(folder))
    ((entry,),) = yaml.safe_load(text).values()
    assert prms.create(entry["plugin"], **entry["arguments"]).problems({}) == []
    return entry["plugin"], entry["arguments"], text


@pytest.mark.parametrize(
    ("checkpoint", "plugin", "undecided"),
    [
        ("nano:prm", "qwen", "markers"),
        ("nano:shepherd", "shepherd", "the plugin, which follows from the name"),
        ("nano:reasoneval", "reasoneval", "read_at"),
        ("nano:strong", "judge", "one for 'shepherd'"),
    ],
)
def test_the_shipped_models_are_known(checkpoint: str, plugin: str, undecided: str) -> None:
    found, arguments, text = proposal(checkpoint)
    assert (found, arguments) == (plugin, {"checkpoint": checkpoint, "max_tokens": 1024})
    assert undecided in text


def test_the_published_layouts_are_known(tmp_path: Path, reward_folder: Path) -> None:
    """By their heads. Causal language models are known by their names."""
    layouts = {
        "qwen": reward_folder,
        "reasoneval": layout(tmp_path / "a", REASONEVAL_7B, {"score_head.weight": (3, 32)}),
        "skywork": layout(
            tmp_path / "b", SKYWORK, {"v_head.summary.weight": (1, 32), "v_head.summary.bias": (1,)}
        ),
        "shepherd": layout(tmp_path / "math-shepherd-mistral-7b-prm", SHEPHERD),
        "rlhflow": layout(tmp_path / "Llama3.1-8B-PRM-Deepseek-Data", LLAMA_31),
    }
    proposed = {name: proposal(folder)[:2] for name, folder in layouts.items()}
    assert {name: plugin for name, (plugin, _) in proposed.items()} == {
        **{name: name for name in layouts},
        "skywork": "token-classifier",
        "rlhflow": "shepherd",
    }
    for name, written in (
        ("skywork", {"head": "v_head.summary", "tokenized": "lines"}),
        ("rlhflow", {"markers": "turns"}),
        ("shepherd", {}),
    ):
        assert proposed[name][1] == {"checkpoint": str(layouts[name]), **written}


CLASSIFIER = {**LLAMA_31, "architectures": ["LlamaForTokenClassification"]}
BIASED = {"score.weight": (2, 32), "score.bias": (2,)}


def test_a_classifier_gets_what_its_files_say(tmp_path: Path) -> None:
    plugin, arguments, _ = proposal(layout(tmp_path / "trl", CLASSIFIER, BIASED))
    assert (plugin, set(arguments)) == ("token-classifier", {"checkpoint"})
    names = {"id2label": {"0": "bad", "1": "neutral", "2": "GOOD"}}
    three = {"score.weight": (3, 32), "score.bias": (3,)}
    plugin, arguments, _ = proposal(layout(tmp_path / "named", {**CLASSIFIER, **names}, three))
    assert (plugin, arguments["label"]) == ("token-classifier", "GOOD")
    reward = {"architectures": ["LlamaForSequenceClassification"], "problem_type": "regression"}
    single = {
        **LLAMA_31,
        **reward,
        "id2label": {"0": "LABEL_0"},
        "max_position_embeddings": 2048,
        "rope_scaling": None,
    }
    plugin, arguments, _ = proposal(layout(tmp_path / "reward", single, {"score.weight": (1, 32)}))
    assert plugin == "sequence-classifier"
    del arguments["checkpoint"]
    template = "{{ question }}\n\n{{ solution }}"  # The tokenizer has no chat template.
    assert arguments == {"scale": "probability", "template": template, "max_tokens": 2048}


def test_a_marker_that_only_the_tokenizer_has_is_proposed(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = layout(tmp_path / "marked", CLASSIFIER, BIASED)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|step_end|>"]})
    tokenizer.save_pretrained(folder)
    assert proposal(folder)[1]["marker"] == "<|step_end|>"


def test_what_no_plugin_reads_and_what_is_no_whole_checkpoint_is_refused(tmp_path: Path) -> None:
    encoder = layout(
        tmp_path / "bert", {**CLASSIFIER, "architectures": ["X"]}, {"classifier.weight": (2, 32)}
    )
    with pytest.raises(PluginFailedError, match=r"No PRM of prmcal reads .*classifier\.weight \[2, 32\]"):
        proposed_entry(str(encoder))
    (encoder / "model.safetensors").unlink()
    with pytest.raises(DataError, match="has no weights"):
        proposed_entry(str(encoder))
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(InvalidArgumentsError, match="It has an adapter: merge it into its base model"):
        proposed_entry(str(adapter))
    with pytest.raises(InvalidArgumentsError, match="Run: hf download some-org/no-such-prm"):
        proposed_entry("some-org/no-such-prm")


def test_the_command_prints_nothing_else(prmcal: Prmcal) -> None:
    done = prmcal("doctor", "nano:prm")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["prms"][0]["plugin"] == "qwen"
