"""Checkpoints that cannot be loaded: their files tell it before a model is loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prmcal.registry.models.checkpoints import NANO_FOLDER
from prmcal.registry.plugins import llms, load_plugin_file, prms

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5000000\n"


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def cut_in_header(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100])


def lacks_a_part(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    parts = {
        "model.norm.weight": "model-00001-of-00002.safetensors",
        "score.0.weight": "model-00002-of-00002.safetensors",
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))


DAMAGES: dict[Callable[[Path], object], str] = {
    cut: "model.safetensors cannot be read: .* Download or copy the checkpoint again",
    cut_in_header: "model.safetensors cannot be read: .* Download or copy the checkpoint again",
    lacks_a_part: "model-00002-of-00002.safetensors cannot be read: No such file or directory. Download or copy",
    lambda folder: (folder / "model.safetensors").write_bytes(POINTER): "pointer of Git LFS .* git lfs pull",
    lambda folder: (folder / "tokenizer.json").write_bytes(POINTER): "tokenizer.json is a pointer of Git LFS",
    lambda folder: (folder / "tokenizer.json").write_text("{"): "tokenizer.json cannot be read: it is not JSON",
    lambda folder: (
        folder / "tokenizer.json"
    ).unlink(): "has no tokenizer file: .* Copy the tokenizer of its base model",
    lambda folder: (folder / "model.safetensors").unlink(): r"has no weights \(\*.safetensors\)",
    lambda folder: (folder / "config.json").write_text("[]"): "config.json cannot be read",
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.items(), ids=range(len(DAMAGES)))
def test_damaged_files_are_found(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = shutil.copytree(NANO_FOLDER / "prm", tmp_path / "prm")
    prm = prms.create("qwen", checkpoint=str(folder))
    assert prm.problems({}) == []
    damage(folder)
    (error,) = prm.problems({})
    with pytest.raises(type(error), match=message):
        raise error


@pytest.mark.parametrize(
    ("plugin", "checkpoint", "needed"),
    [
        ("qwen", "nano:weak", "score.0.weight, but there is none.*or the PRM plugin shepherd or judge"),
        ("qwen-vllm", "nano:weak", "score.0.weight, but there is none"),
        ("reasoneval", "nano:shepherd", r"score_head.weight of shape \[3, ...\], but there is none"),
        ("token-classifier", "nano:prm", "score.weight.*but there is none.*or the PRM plugin qwen"),
        ("shepherd", "nano:prm", r"'shepherd' does not read its weight score\.0\.weight\..*or the PRM plugin qwen"),
    ],
)
def test_a_checkpoint_of_another_kind_is_found(plugin: str, checkpoint: str, needed: str) -> None:
    error = prms.create(plugin, checkpoint=checkpoint).problems({})[-1]
    with pytest.raises(type(error), match=rf"{checkpoint} is another kind of model \(Qwen2.*{needed}"):
        raise error


def test_a_head_with_other_outputs_is_found(tmp_path: Path) -> None:
    folder = shutil.copytree(NANO_FOLDER / "prm", tmp_path / "prm")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "levels": [0.1, 0.5, 0.9]}))
    (error,) = prms.create("qwen", checkpoint=str(folder)).problems({})
    assert "needs the weight score.2.weight of shape [3, ...], but its shape is [2, 128]" in str(error)


def test_a_language_model_without_its_head_is_found(tmp_path: Path) -> None:
    folder = shutil.copytree(NANO_FOLDER / "weak", tmp_path / "weak")
    config = json.loads((folder / "config.json").read_text())
    assert llms.create("transformers", checkpoint=str(folder)).problems({}) == []
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    (error,) = llms.create("transformers", checkpoint=str(folder)).problems({})
    assert "the LLM 'transformers' needs the weight lm_head.weight, but there is none" in str(error)


def test_a_model_that_a_plugin_loads_in_its_own_way_may_have_any_head(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        """
from prmcal import prm
from prmcal.registry.prms.qwen import QwenPRM

@prm("own-head")
class OwnHead(QwenPRM):
    def load_model(self):
        raise NotImplementedError
"""
    )
    load_plugin_file(file)
    assert prms.create("own-head", checkpoint="nano:weak").problems({}) == []
