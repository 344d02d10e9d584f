"""A merge that is killed leaves what was before or all, and the same command finishes it."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from prmcal.harness.share.merge import merge
from tests.conftest import environment
from tests.forked import run_command
from tests.harness.share.small_runs import leaderboards

# The process kills itself before one of the steps that change the folder: the renaming of a file or of a folder.
_KILLED = """
import os, signal, sys
from pathlib import Path
from prmcal.harness.share.merge import merge

left = int(sys.argv[1])

def counted(rename):
    def step(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(*arguments, **options)
    return step

os.rename, os.replace = counted(os.rename), counted(os.replace)
merge(Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
print(left)
"""


def _steps(left: int, out: Path, *inputs: Path) -> subprocess.CompletedProcess[str]:
    return run_command([str(left), str(out), *map(str, inputs)], environment(), Path.cwd(), _KILLED)


@pytest.fixture(scope="module")
def expected(
    parts: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path, list[dict[str, str]]]:
    """The number of steps of a merge that extends a leaderboard, this leaderboard, and its tables before and after."""
    root = tmp_path_factory.mktemp("expected")
    merge(root / "before", [parts["dataset"]])
    out = Path(shutil.copytree(root / "before", root / "after"))
    told = _steps(10_000, out, parts["llm"])
    assert told.returncode == 0, told.stderr
    return 10_000 - int(told.stdout), root / "before", [leaderboards(root / "before"), leaderboards(out)]


@pytest.mark.parametrize("share", [0.5, "submission", "record", "published"])
def test_a_killed_merge_is_continued(
    parts: Mapping[str, Path],
    tmp_path: Path,
    expected: tuple[int, Path, list[dict[str, str]]],
    share: float | str,
) -> None:
    steps, before, tables = expected
    # The last steps: the submission, the plan, the record, the failures and the database.
    last = {"submission": 5, "record": 3, "published": 1}
    point = steps - last[share] if isinstance(share, str) else int(share * steps)
    out = Path(shutil.copytree(before, tmp_path / "out"))
    killed = _steps(point, out, parts["llm"])
    assert killed.returncode == -signal.SIGKILL
    assert leaderboards(out) in tables
    merge(out, [parts["llm"]])
    assert leaderboards(out) == tables[1]
    assert not (out / ".incoming").exists()
