"""The folder of a run: a lock that cannot be written."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prmcal.errors import RunError, StorageError
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import environment

# The largest file of the process has no byte, so that the lock can be created and not be written. Python ignores the
# signal of the limit.
_LOCKED = """
import resource, sys
from pathlib import Path
from prmcal.errors import StorageError
from prmcal.harness.storage.folder import RunFolder

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with RunFolder(Path(sys.argv[1])).lock():
        print("locked")
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_lock_that_cannot_be_written_is_one_error_and_leaves_no_folder(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()
    command = [sys.executable, "-c", _LOCKED, str(out)]
    told = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert told.stdout.startswith(f"{out} cannot be written (File too large)."), told.stderr
    assert out.exists() == there
    with RunFolder(out).lock():
        assert (out / "run.lock").read_text() == f"{os.getpid()}\n"
        with (
            pytest.raises(RunError, match=rf"locked by another run \(process {os.getpid()}\)"),
            RunFolder(out).lock(),
        ):
            pass


def test_a_disk_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(StorageError, match="cannot lock files"), RunFolder(tmp_path / "out").lock():
        pass
