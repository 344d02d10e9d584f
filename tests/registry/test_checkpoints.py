"""Checkpoints are found or refused without delay, and identified by their content."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.models import checkpoints
from prmcal.registry.models.checkpoints import check_checkpoint, checkpoint_identity, resolve_checkpoint
from prmcal.registry.plugins import llms, prms


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The addresses to which something tried to connect, and could not."""
    asked: list[object] = []

    def connect(own: socket.socket, address: object) -> None:
        asked.append(address)
        raise OSError("There is no network.")

    monkeypatch.setattr(socket.socket, "connect", connect)
    return asked


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("nano:nobody", r"no nano model 'nobody'\. Choose from:"),
        ("/no/such/folder", "no checkpoint folder '/no/such/folder'"),
        ("./missing", "no checkpoint folder './missing'"),
        ("models/qwen/missing", "no checkpoint folder 'models/qwen/missing'"),
        ("", "no checkpoint folder ''"),
    ],
)
def test_what_is_not_there_is_refused_without_asking_a_hub(
    checkpoint: str, message: str, no_network: list[object]
) -> None:
    for function in (check_checkpoint, resolve_checkpoint, checkpoint_identity):
        with pytest.raises(InvalidArgumentsError, match=message):
            function(checkpoint)
    with pytest.raises(InvalidArgumentsError, match=message):
        llms.create("transformers", checkpoint=checkpoint)
    assert no_network == []


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"has no config\.json"):
        check_checkpoint(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(policy_folder: Path, tmp_path: Path) -> None:
    from prmcal.registry.models.pretrained import load_tokenizer

    shutil.copytree(policy_folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(PluginFailedError, match=r"has no tokenizer file: one of tokenizer\.json"):
        load_tokenizer(str(tmp_path))


def test_a_hub_id_without_a_network_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_network: list[object]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    check_checkpoint("some-org/Some-Model")
    with pytest.raises(InvalidArgumentsError, match=r"is not on this machine.*hf download some-org/Some-Model"):
        resolve_checkpoint("some-org/Some-Model")
    assert no_network == []


class Hub(BaseHTTPRequestHandler):
    """A hub with one gated model, whose files nobody can download."""

    def do_GET(self) -> None:
        if "/api/models/org/gated/tree" in self.path:
            self.answer(200, {}, [{"type": "file", "path": "config.json", "oid": "a", "size": 2}])
        elif "/api/models/org/gated" in self.path:
            self.answer(200, {}, {"id": "org/gated", "sha": "c" * 40, "siblings": [{"rfilename": "config.json"}]})
        elif "/org/gated/" in self.path:
            self.answer(403, {"X-Error-Code": "GatedRepo"}, {"error": "Access to model org/gated is restricted."})
        else:
            self.answer(401, {"X-Error-Code": "RepoNotFound"}, {"error": "Invalid username or password."})

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, status: int, headers: dict[str, str], body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


def test_a_gated_or_private_model_says_how_to_get_in(tmp_path: Path) -> None:
    code = (
        "import sys; from prmcal.registry.models.checkpoints import resolve_checkpoint\n"
        "for name in sys.argv[1:]:\n"
        "    try: resolve_checkpoint(name)\n"
        "    except Exception as error: print(type(error).__name__, error)"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    hub = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, "org/gated", "org/private"],
        env={**os.environ, **hub},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    server.shutdown()
    server.server_close()
    gated, private = done.stdout.splitlines()
    assert gated.startswith("InvalidArgumentsError The checkpoint 'org/gated' is not on this machine")
    assert gated.endswith("Accept its licence at https://huggingface.co/org/gated, then run 'hf auth login'.")
    assert private.endswith("Check the name. A private repository needs 'hf auth login'.")


def test_a_downloaded_hub_model_is_known_by_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    with pytest.raises(InvalidArgumentsError, match=r"no nano model '\.\./tiny'\. Choose from: nano:tiny"):
        resolve_checkpoint("nano:../tiny")


def test_identities_are_had_without_torch(policy_folder: Path) -> None:
    code = (
        "import sys; from prmcal.registry.plugins import llms, prms\n"
        f"llms.create('transformers', checkpoint={str(policy_folder)!r}).identity()\n"
        f"prms.create('qwen', checkpoint={str(policy_folder)!r}).identity()\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=600)


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
