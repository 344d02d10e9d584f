"""Workers that die or tell nonsense: their shards are tried again, and nobody else's cells fail."""

from __future__ import annotations

import json
from pathlib import Path

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments

PLUGIN = """
import os, signal, threading
from pathlib import Path
from prmcal import Calibrator, calibrator

@calibrator("faulty")
class Faulty(Calibrator):
    def __init__(self, fault: str, folder: str) -> None:
        self.fault = fault
        self.folder = folder

    def fit(self, features, k, n):
        tries = Path(self.folder) / self.fault
        tries.write_text((tries.read_text() if tries.exists() else "") + "x")
        if self.fault == "dies-once" and tries.read_text() == "x":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "dies":
            print("My last words")
            os._exit(7)
        if self.fault == "closes-files":
            os.closerange(3, 200)
        if self.fault == "dies-later":
            threading.Timer(0.1, lambda: os._exit(7)).start()
        return self

    def predict(self, features):
        return features[:, None]

    def save(self, folder):
        pass

    def load(self, folder):
        return self
"""


def calibrators(folder: Path, *faults: str) -> list[object]:
    """Entries of a grid file, and the file of their plugin in the folder."""
    (folder / "faulty.py").write_text(PLUGIN)
    (folder / "tries").mkdir()
    arguments = {"folder": str(folder / "tries")}
    return [{"name": fault, "plugin": "faulty", "arguments": arguments | {"fault": fault}} for fault in faults]


def test_a_worker_that_died_is_replaced_and_its_shard_tried_again(tmp_path: Path, prmcal: Prmcal) -> None:
    entries = calibrators(tmp_path, "dies-once", "dies", "closes-files", "dies-later")
    out = tmp_path / "out"
    path = grid(tmp_path, calibrators=["uncalibrated", *entries])
    done = prmcal(*run_arguments(path, out, workers=2), "--plugin", tmp_path / "faulty.py")
    assert done.returncode == ExitCode.FAILED_CELLS
    assert "Traceback" not in done.stderr
    rows = json.loads(render_leaderboard(out, "calibration", "json"))
    reasons = {row["calibrator"]: row["reason"] for row in rows if row["status"] == "failed"}
    assert reasons == {
        "dies": "The worker process ended itself with code 7.",
        "closes-files": reasons["closes-files"],
    }
    assert reasons["closes-files"].startswith("The worker process ")
    assert {each.name: len(each.read_text()) for each in (tmp_path / "tries").iterdir()} == {
        "dies-once": 2,
        "dies": 3,
        "closes-files": 3,
        "dies-later": 1,
    }
    log = (out / "run.log").read_text()
    assert "The worker process was killed (SIGKILL), usually because the machine ran out of memory." in log
    assert log.count("    My last words") == 3
    assert not (out / "workers").exists()


def test_workers_that_cannot_start_end_the_run(tmp_path: Path, prmcal: Prmcal) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import multiprocessing\n"
        "if multiprocessing.parent_process() is not None:\n"
        "    raise RuntimeError('not in a worker')\n"
    )
    out = tmp_path / "out"
    done = prmcal(*run_arguments(grid(tmp_path), out), "--plugin", plugin)
    assert done.returncode == ExitCode.BAD_INPUT
    said = " ".join(done.stderr.split())
    assert "Workers cannot start. The worker process ended itself with code 1. It wrote:" in said
    assert "not in a worker" in said
    assert "Traceback" not in said
