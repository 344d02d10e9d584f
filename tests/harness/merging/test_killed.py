"""A merge that is killed at any moment leaves the old folder or nothing, and the same command finishes it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from prmcal.errors import StorageError
from prmcal.harness.merging import merge as module
from prmcal.harness.merging.merge import merge
from tests.conftest import ROOT, environment
from tests.forked import run_command
from tests.harness.merging.small_runs import copied, rows

KILLED = """
import os, signal, sys
from pathlib import Path
from prmcal.harness.merging.merge import merge

share, steps, total = float(sys.argv[1]), 0, int(sys.argv[2])
def count(event, arguments):
    global steps
    if event in ("os.link", "os.rename", "os.mkdir", "os.rmdir", "os.remove"):
        steps += 1
        if total and steps >= share * total:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
merge([Path(each) for each in sys.argv[4:]], Path(sys.argv[3]))
print(steps)
"""


def killed(share: float, total: int, out: Path, folders: list[Path]) -> int:
    """Merge in a process that kills itself after a share of its steps. Return the steps if it was not killed."""
    arguments = [str(share), str(total), str(out), *map(str, folders)]
    done = run_command(arguments, environment(), ROOT, KILLED)
    assert done.returncode == (-signal.SIGKILL if total else 0), done.stderr
    return 0 if total else int(done.stdout)


@pytest.mark.parametrize("extends", [False, True], ids=["new", "old"])
def test_a_kill_leaves_the_old_folder_or_nothing(
    extends: bool, whole: Path, halves: list[Path], tmp_path: Path
) -> None:
    out = copied(halves[0], tmp_path / "out") if extends else tmp_path / "out"
    steps = killed(0, 0, tmp_path / "other", halves)
    before = rows(out) if extends else None
    for share in (0.4, 0.99):
        killed(share, steps, out, halves)
        assert (rows(out) if out.exists() else None) == before
    merge(halves, out)
    assert rows(out) == rows(whole)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_full_disk_leaves_the_old_folder(halves: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = rows(halves[0])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "link_or_copy", full)
    with pytest.raises(StorageError, match="is full"):
        merge(halves, halves[0])
    monkeypatch.setattr(module, "link_or_copy", shutil.copyfile)
    monkeypatch.setattr(module, "rebuild_database", full)
    with pytest.raises(StorageError, match="is full"):
        merge(halves, tmp_path / "out")
    assert rows(halves[0]) == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["strong", "weak"]
    assert copied(halves[0], tmp_path / "copy")
