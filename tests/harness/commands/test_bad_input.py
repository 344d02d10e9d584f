"""Files of strangers on the command line: one line that says what is wrong, exit code 2, and no traceback."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prmcal.harness.cli.app import run_command

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
            run_command()
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
    [('{"question": ' + "[" * 100_000, "its lists and objects are nested too deeply. Correct or remove it.")],
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


def test_a_busy_port(tmp_path: Path, refusal: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = refusal("dashboard", tmp_path, "--port", port)
    assert f"cannot listen at 127.0.0.1 port {port}" in refused
    assert refused.endswith("Give another --host or --port.\n")
