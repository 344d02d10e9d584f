"""A folder that is written again: one that is killed leaves the old one or the new one, whole."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.conftest import environment
from tests.forked import run_command

# The process kills itself before one of the steps that change what readers see.
_KILLED = """
import os, signal, sys
from pathlib import Path
from prmcal.harness.storage.written import ReportFolder

left, out, text = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def watch(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "ctypes.dlsym"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

folder = ReportFolder(out)
sys.addaudithook(watch)
folder.replace(lambda fresh: [(fresh / name).write_text(text) for name in ("a.txt", "b.txt")], {})
print("left", left)
"""


def write(left: int, out: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run_command([str(left), str(out), text], environment(), Path.cwd(), _KILLED)


def test_a_folder_that_is_written_again_is_whole_at_any_moment(tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert write(1000, out, "old").returncode == 0
    whole = write(1000, tmp_path / "other", "new")
    steps = 1000 - int(whole.stdout.split()[-1])
    killed = 0
    for point in range(steps):
        killed += write(point, out, "new").returncode == -signal.SIGKILL
        texts = [(out / name).read_text() for name in ("a.txt", "b.txt")]
        assert texts in (["old", "old"], ["new", "new"]), point
        assert write(1000, out, "old").returncode == 0
        assert (out / "a.txt").read_text() == "old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "report"]
    assert killed > 4
