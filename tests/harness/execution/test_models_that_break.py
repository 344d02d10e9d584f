"""Models that break while they are used: they are loaded again, and only what no try helps fails its cells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.execution.ending import Failure
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid, run_arguments

PLUGIN = f"""
import os, subprocess
from pathlib import Path
from prmcal import calibrator, llm, prm
from prmcal.registry.plugins import calibrators, llms, load_plugin_file, prms

load_plugin_file(Path("{SYNTHETIC}"))

class Fateful:
    dead = ""
    poisoned = False

    def meets_its_fate(self):
        calls = Path(self.folder) / f"{{self.fate}} {{os.getpid()}}"
        number = sum(len(each.read_text()) for each in Path(self.folder).glob(f"{{self.fate}} *")) + 1
        calls.write_text((calls.read_text() if calls.exists() else "") + "x")
        if self.fate == "dies" and number == 2:
            self.dead = "EngineCore encountered an issue"
        if self.fate == "poisons" and number == 2:
            Fateful.poisoned = True
        if Fateful.poisoned:
            raise RuntimeError("CUDA error: device-side assert triggered")
        if self.fate in ("breaks-twice", "breaks-in-search") and number in (1, 2):
            raise RuntimeError("no memory")
        if self.fate == "never-starts":
            subprocess.run(["sh", "-c", "echo 'ValueError: Free memory is less than desired' >&2"])
            raise RuntimeError("Engine core initialization failed. See root cause above.")
        if self.fate == "mistaken":
            raise ValueError("not what I expected")
        if self.dead:
            raise OSError(self.dead)

    def close(self):
        super().close()
        if self.dead:
            raise RuntimeError("cannot be closed")

class FatefulModel(Fateful):
    def __init__(self, fate: str, folder: str) -> None:
        super().__init__()
        self.fate, self.folder = fate, folder

@llm("fateful")
class FatefulLLM(FatefulModel, llms.get("synthetic-llm")):
    def generate(self, prefixes, n, sampling, seed):
        if sampling.stop or self.fate != "breaks-in-search":
            self.meets_its_fate()
        return super().generate(prefixes, n, sampling, seed)

@prm("fateful")
class FatefulPRM(FatefulModel, prms.get("synthetic-prm")):
    def score(self, question, trajectories):
        self.meets_its_fate()
        found = super().score(question, trajectories)
        return found[:-1] if self.fate == "outside" else found

@calibrator("fateful")
class FatefulFit(Fateful, calibrators.get("temperature")):
    def __init__(self, fate: str, folder: str) -> None:
        self.fate, self.folder = fate, folder

    def fit_features(self, features, k, n, questions=None):
        self.meets_its_fate()
        return super().fit_features(features, k, n, questions)
"""


def run(
    prmcal: Prmcal, folder: Path, fates: Mapping[str, Sequence[str]], workers: int = 1, **changes: Any
) -> tuple[int, str, list[dict[str, Any]]]:
    """Run a small grid with fateful plugins. Return the exit code, the log and the rows of calibration."""
    (folder / "fateful.py").write_text(PLUGIN)
    entries: dict[str, Any] = {}
    for kind, names in fates.items():
        (folder / "calls" / kind).mkdir(parents=True)
        told = {"folder": str(folder / "calls" / kind)}
        entries[kind] = [{"name": fate, "plugin": "fateful", "arguments": {"fate": fate, **told}} for fate in names]
    path = grid(folder, **{"strategies": ["pass@1"], "calibrators": ["isotonic"], **entries, **changes})
    done = prmcal(*run_arguments(path, folder / "out", workers), "--plugin", folder / "fateful.py")
    assert "Traceback" not in done.stderr
    rows = json.loads(render_leaderboard(folder / "out", "calibration", "json"))
    return done.returncode, (folder / "out" / "run.log").read_text(), rows


def calls(folder: Path, kind: str, fate: str) -> Counter[str]:
    """The numbers of calls by each process."""
    files = (folder / "calls" / kind).glob(f"{fate} *")
    return Counter({each.name.split()[-1]: len(each.read_text()) for each in files})


@pytest.mark.parametrize(
    ("fates", "workers"),
    [
        ({"llms": ["dies"], "prms": ["breaks-twice"], "calibrators": ["breaks-twice"]}, 1),
        ({"llms": ["poisons"]}, 2),
        ({"llms": ["breaks-in-search"]}, 1),
    ],
)
def test_a_model_that_broke_is_loaded_again(
    prmcal: Prmcal, tmp_path: Path, fates: dict[str, list[str]], workers: int
) -> None:
    search = {"name": "beam search", "arguments": {"width": 2, "expansions": 2}}
    strategies: list[Any] = ["pass@1", *([search] if fates == {"llms": ["breaks-in-search"]} else [])]
    code, log, rows = run(prmcal, tmp_path, fates, workers, strategies=strategies)
    assert code == ExitCode.DONE, log
    assert {row["status"] for row in rows} == {"done"}
    assert log.count("(try 1 of 3). It is tried again.") >= len(fates)
    assert "ModelBrokenError" in log  # The log has why.
    # Another process went on: it was poisoned, broke twice or was not closed.
    for kind in fates.keys() - {"calibrators"}:
        assert len(calls(tmp_path, kind, *fates[kind])) > 1


def test_a_model_that_never_starts_fails_with_what_its_engine_wrote(prmcal: Prmcal, tmp_path: Path) -> None:
    code, log, rows = run(prmcal, tmp_path, {"llms": ["never-starts"]})
    assert code == ExitCode.FAILED_CELLS
    (reason,) = {row["reason"] for row in rows}
    assert reason.endswith("See root cause above. Its processes wrote: ValueError: Free memory is less than desired")
    # The first shard is tried three times, and the others fail with it.
    assert calls(tmp_path, "llms", "never-starts").total() == 3
    assert log.count("It is tried again.") == 2
    status = json.loads(prmcal("status", tmp_path / "out", "--format", "json").stdout)
    assert {each["cause"] for each in status["failures"]} == {"model"}
    assert "Correct the plugin" not in prmcal("status", tmp_path / "out").stdout


def test_a_mistake_of_a_plugin_fails_at_once(prmcal: Prmcal, tmp_path: Path) -> None:
    code, log, rows = run(prmcal, tmp_path, {"prms": ["outside", "mistaken"]})
    assert code == ExitCode.FAILED_CELLS
    assert {row["status"] for row in rows} == {"failed"}
    assert "It is tried again." not in log
    assert len(calls(tmp_path, "prms", "outside")) == 1
    assert calls(tmp_path, "prms", "mistaken").total() == 1  # The shards behind the first one fail with it.


@pytest.mark.parametrize(
    ("lines", "root"),
    [
        (
            (
                "(EngineCore pid=7) ERROR 11-26 09:00:00 [core.py:708] Traceback (most recent call last):",
                '(EngineCore pid=7) ERROR 11-26 09:00:00 [core.py:708]   File "core.py", line 1, in run',
                "(EngineCore pid=7) ERROR 11-26 09:00:00 [core.py:708]     raise ValueError(memory)",
                "(EngineCore pid=7) ERROR 11-26 09:00:00 [core.py:708] ValueError: No free memory",
                "(EngineCore pid=7) Process EngineCore:",
                "(EngineCore pid=7) ValueError: No free memory",
                "",
            ),
            ". Its processes wrote: (EngineCore pid=7) ValueError: No free memory",
        ),
        (("loading", "ready"), ". Its processes wrote: ready"),
        (("it broke",), ""),
        ((), ""),
    ],
)
def test_the_root_of_a_failure_is_the_last_fault_that_was_written(lines: tuple[str, ...], root: str) -> None:
    failure = Failure("it broke", "model").with_root(lines)
    assert failure.reason == f"it broke{root}"
