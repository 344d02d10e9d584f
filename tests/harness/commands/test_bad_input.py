"""Files of strangers on the command line: one line that says what is wrong, exit code 2, and no traceback."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.harness.audit.scored import scored
from prmcal.harness.cli.app import main
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.solutions import Fields
from tests.mutations import FEW, changed, damaged, reads_or_refuses

PASSES = [{"question": "1+1?", "gold_answer": "2", "generations": ["2", "3"]}] * 2
GRID = """
name: own
llms: [{name: a, plugin: recorded, arguments: {path: FILE}}]
prms: [{name: b, plugin: recorded, arguments: {path: FILE}}]
calibrators: [isotonic]
datasets: [{name: c, plugin: jsonl, arguments: {path: FILE}}]
calibration: {name: c, plugin: jsonl, arguments: {path: FILE}}
"""

Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Run a command that must refuse its input, and return its only line."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["prmcal", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code, told.out) == (2, "")
        assert told.err.startswith("prmcal: error: ")
        assert told.err.count("\n") == 1
        assert told.err[:-1].isprintable()
        assert len(told.err) < 2100
        return told.err

    return run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not valid YAML"),
        (GRID + "? " + "x" * 50_000, "unknown key 'xxx"),
        (GRID.replace("FILE", "x" * 5000), "There is no recording xxx"),
    ],
)
def test_a_grid(text: str, message: str, tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "grid.yaml").write_text(text)
    assert message in refusal("plan", tmp_path / "grid.yaml")


@pytest.mark.parametrize("grid", ["x" * 5000, "\x1b[31m", "/dev"])
def test_a_grid_that_is_not_there(grid: str, refusal: Refusal) -> None:
    assert "There is no grid file" in refusal("plan", grid)


def test_a_path_that_no_folder_can_have(refusal: Refusal) -> None:
    for arguments in (["leaderboard"], ["plan", "hello", "--out"], ["plan", "hello", "--plugin"]):
        assert "File name too long" in refusal(*arguments, "x" * 1000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"question": ' + "[" * 100_000,
            "its lists and objects are nested too deeply. Correct or remove it.",
        ),
    ],
)
def test_a_recording(line: str, message: str, tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "own.jsonl").write_text(f"{line}\n")
    refused = refusal("audit", tmp_path / "own.jsonl")
    assert f"{tmp_path / 'own.jsonl'}, line 1: {message}" in refused


def test_a_plugin_file(tmp_path: Path, refusal: Refusal) -> None:
    plugin = tmp_path / "mine.py"
    for code in ("import sys; sys.exit(3)", "(" * 500, "raise ValueError('\\ud800\\x1b' * 5000)", "\x00"):
        plugin.write_text(code)
        assert f"{plugin} cannot be loaded" in refusal("list", "--plugin", plugin)


def test_an_argument_of_a_plugin(refusal: Refusal) -> None:
    refused = refusal("check", "nano-math", "--argument", "checkpoint=[")
    assert "The value of --argument checkpoint is not valid YAML" in refused


def array_bytes() -> bytes:
    written = io.BytesIO()
    np.save(written, np.full((2, 2), 0.5))
    return written.getvalue()


LIES = st.sampled_from(
    [b"(99999999999999,)", b"(-1, 2)", b"((((((", b"(2, " + b"9" * 5000, b"'a'*10**9", b"\xff", b""]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


@given(
    content=damaged(array_bytes())
    | damaged(array_bytes()[:128])
    | LIES.map(lambda lie: array_bytes().replace(b"(2, 2)", lie))
)
@FEW
def test_damaged_rewards(content: bytes, folder: Path) -> None:
    (folder / "pass.json").write_text(json.dumps(PASSES))
    (folder / "rewards.npy").write_bytes(content)
    files = [folder / "pass.json", folder / "rewards.npy"]
    reads_or_refuses(lambda: scored(read_files(files), "first passes", Fields()))


@given(passes=changed(PASSES))
@FEW
def test_changed_first_passes(passes: object, folder: Path) -> None:
    (folder / "changed.json").write_text(json.dumps(passes))
    files = [folder / "changed.json", folder / "rewards.npy"]
    (folder / "rewards.npy").write_bytes(array_bytes())
    reads_or_refuses(lambda: scored(read_files(files), "first passes", Fields()))


def test_a_busy_port(tmp_path: Path, refusal: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = refusal("dashboard", tmp_path, "--port", port)
    assert f"cannot listen at 127.0.0.1 port {port}" in refused
    assert refused.endswith("Give another --host or --port.\n")
