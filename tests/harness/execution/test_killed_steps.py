"""Commands that are killed before any of their steps leave what was there or what they make, and can be repeated."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import environment
from tests.forked import run_command

# The process kills itself before one of the steps that change what readers see.
KILLED = """
import os, signal, sys
left = int(sys.argv[1])

def watch(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "ctypes.dlsym"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

import prmcal.__main__, prmcal.db.catalog, prmcal.harness.execution.run
sys.addaudithook(watch)
sys.argv = ["prmcal", *sys.argv[2:]]
try:
    prmcal.__main__.main()
except SystemExit as ended:
    assert not ended.code, ended
print("left", left)
"""


def steps(left: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_command([str(left), *map(str, arguments)], environment(), Path.cwd(), KILLED)


def tables(run: Path) -> str:
    return "".join(render_leaderboard(run, table, "csv") for table in ("calibration", "scaling"))


def points(*arguments: object) -> list[int]:
    """Two of the steps of a command, which is run to its end: one in the middle, and the last one."""
    whole = steps(10_000, *arguments)
    assert whole.returncode == 0, whole.stderr
    count = 10_000 - int(whole.stdout.split()[-1])
    return [count // 2, count - 1]


@pytest.fixture
def run(finished: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(finished[1], tmp_path / "run"))


@pytest.mark.parametrize("command", [("rebuild",), ("gc", "--yes")])
def test_a_command_that_is_killed_costs_no_result(command: tuple[str, ...], run: Path, tmp_path: Path) -> None:
    given, unneeded = run, run / "artifacts" / "score" / ("0" * 24)
    for each in (unneeded, run / "checkpoints" / ("0" * 24)):
        each.mkdir(parents=True)
        (each / "file").write_text("x")
    copy, expected, killed = tmp_path / "copy", tables(run), 0
    for point in points(*command[:1], shutil.copytree(run, tmp_path / "kept"), *command[1:]):
        shutil.rmtree(copy, ignore_errors=True)
        done = steps(point, *command[:1], shutil.copytree(run, copy), *command[1:])
        killed += done.returncode == -signal.SIGKILL
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        assert tables(copy) == expected, point
    assert killed > 1
    run = copy
    assert steps(10_000, *command[:1], run, *command[1:]).returncode == 0
    assert tables(run) == expected
    assert not list(run.glob(".results*"))
    assert (run / unneeded.relative_to(given)).exists() == (command == ("rebuild",))
