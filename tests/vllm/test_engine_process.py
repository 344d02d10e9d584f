"""A run with vLLM's engine in a process of its own, as on GPUs: workers start it, stop it, and it ends with them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from tests.conftest import ROOT, environment
from tests.forked import run_command

LLM = {"name": "weak", "plugin": "transformers", "arguments": {"checkpoint": "nano:weak"}}
PRM = {"name": "served", "plugin": "qwen-vllm", "arguments": {"checkpoint": "nano:prm", "max_tokens": 1024}}


def grid(folder: Path) -> Path:
    data = yaml.safe_load((ROOT / "grids" / "nano.yaml").read_text())
    data |= {
        "llms": [LLM],
        "prms": [PRM],
        "calibrators": ["uncalibrated", {"name": "ats", "plugin": "ats", "arguments": {"epochs": 1}}],
        "calibration": {**data["calibration"], "questions": 4, "trajectories": 2},
        "datasets": [{"name": "nano-math", "questions": 4}],
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
        "strategies": ["pass@1", "best-of-n"],
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def engines() -> set[int]:
    """The processes of this machine that call themselves an engine of vLLM."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"VLLM::"):
            found.add(int(process.name))
    return found


def test_an_engine_and_models_of_transformers_take_turns_and_leave_nothing(tmp_path: Path) -> None:
    """The LLM and the hidden states of the PRM are on transformers."""
    before, seen = engines(), set[int]()
    own = {**environment(), "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    arguments = ["run", str(grid(tmp_path)), "--out", str(tmp_path / "out"), "--workers", "1"]
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(run_command, arguments, own, ROOT)
        while not run.done():
            seen |= engines() - before
            time.sleep(0.5)
    assert run.result().returncode == 0, run.result().stderr
    assert seen
    assert not engines() & seen
