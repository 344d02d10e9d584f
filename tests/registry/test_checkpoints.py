"""Checkpoints: found at once or refused at once, and known by what they hold."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry import checkpoints
from registry.checkpoints import check_checkpoint, checkpoint_identity, resolve_checkpoint
from registry.errors import InvalidArgumentsError
from registry.plugins import llms, prms


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("nano:nobody", r"no nano model 'nobody'\. There are:"),
        ("/no/such/folder", "no checkpoint folder '/no/such/folder'"),
        ("./missing", "no checkpoint folder './missing'"),
        ("models/qwen/missing", "no checkpoint folder 'models/qwen/missing'"),
        ("", "no checkpoint folder ''"),
    ],
)
def test_what_is_not_there_is_refused_at_once(checkpoint: str, message: str) -> None:
    start = time.monotonic()
    for function in (check_checkpoint, resolve_checkpoint, checkpoint_identity):
        with pytest.raises(InvalidArgumentsError, match=message):
            function(checkpoint)
    with pytest.raises(InvalidArgumentsError, match=message):
        llms.create("transformers", checkpoint=checkpoint)
    assert time.monotonic() - start < 1


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"holds no config\.json"):
        check_checkpoint(str(tmp_path))


def test_a_hub_id_without_a_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    check_checkpoint("some-org/Some-Model")
    start = time.monotonic()
    with pytest.raises(
        InvalidArgumentsError, match=r"neither on this machine.*hf download some-org/Some-Model"
    ):
        resolve_checkpoint("some-org/Some-Model")
    assert time.monotonic() - start < 5


def test_a_downloaded_hub_model_is_known_by_its_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    refs = tmp_path / "models--some-org--Downloaded" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("a" * 40)
    assert checkpoint_identity("some-org/Downloaded") == "a" * 40
    assert checkpoint_identity("some-org/Downloaded@" + "b" * 40) == "b" * 40


def test_identity_follows_the_contents_and_not_the_place(policy_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(policy_folder, copy)
    (copy / "README.md").write_text("a note")
    original = checkpoint_identity(str(policy_folder))
    assert checkpoint_identity(str(copy)) == original
    changed = set()
    for name in ("model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"):
        file = copy / name
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        changed.add(checkpoint_identity(str(copy)))
        file.write_bytes(content)
    assert len(changed) == 4
    assert original not in changed


def test_nano_models_are_named_from_anywhere(
    policy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(policy_folder, tmp_path / "tiny")
    monkeypatch.setattr(checkpoints, "NANO_FOLDER", tmp_path)
    assert resolve_checkpoint("nano:tiny") == tmp_path / "tiny"
    with pytest.raises(InvalidArgumentsError, match=r"no nano model '\.\./tiny'\. There are: nano:tiny"):
        resolve_checkpoint("nano:../tiny")


def test_identities_are_had_without_torch(policy_folder: Path) -> None:
    code = (
        "import sys; from registry.plugins import llms, prms\n"
        f"llms.create('transformers', checkpoint={str(policy_folder)!r}).identity()\n"
        f"prms.create('qwen', checkpoint={str(policy_folder)!r}).identity()\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=60)


def test_keys_of_a_model_hold_what_decides_its_output(policy_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(policy_folder, tmp_path / "moved")
    for registry, name, limits in (
        (llms, "transformers", {"batch_tokens": 9, "device": "cpu"}),
        (prms, "qwen", {"batch_tokens": 9, "tree_tokens": 9, "device": "cpu"}),
    ):
        first = registry.create(name, checkpoint=str(policy_folder)).identity()
        assert registry.create(name, checkpoint=str(tmp_path / "moved"), **limits).identity() == first
        assert registry.create(name, checkpoint=str(policy_folder), dtype="float32").identity() != first
    every = prms.create("qwen", checkpoint=str(policy_folder), markers="every", max_tokens=99)
    assert every.identity() != first
    assert every.identity()["max_tokens"] == 99
