"""A run whose LLM is served by vLLM: the server is killed in the middle, and with another one the run goes on."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import yaml

from tests.conftest import ROOT, command, environment
from tests.vllm.server import kill, serving

CHECKPOINT = "nano:weak"
SECONDS_TO_WORK = 300


def grid(folder: Path, port: int) -> Path:
    data = yaml.safe_load((ROOT / "grids" / "nano.yaml").read_text())
    served = {
        "base_url": f"http://127.0.0.1:{port}/v1",
        "model": "nano-weak",
        "tokenizer": CHECKPOINT,
        "patience": 0.5,
    }
    data |= {
        "llms": [{"name": "served", "plugin": "openai", "arguments": served}],
        "prms": data["prms"][:1],
        "calibrators": ["uncalibrated", "isotonic"],
        "calibration": {**data["calibration"], "questions": 6, "trajectories": 2},
        "datasets": [{"name": "nano-math", "questions": 6}],
        "measurement": {"measured": 2, "follow_ups": 8, "replicates": 100},
        "scaling": {"samples": 8, "targets": [0.9], "levels": [0.1]},
        "strategies": ["pass@1", "best-of-n + IAS"],
        "shards": {"questions": 1, "trajectories": 8},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def begin(path: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", path, "--out", out, "--workers", 1),
        env=environment(),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def kept(out: Path) -> dict[str, bytes]:
    """What tells a finished shard from another: its manifest, by its key."""
    return {file.parent.name: file.read_bytes() for file in out.glob("artifacts/*/*/artifact.json")}


def test_a_run_goes_on_after_its_server_was_killed(tmp_path: Path, port: int) -> None:
    path, out, log = grid(tmp_path, port), tmp_path / "out", tmp_path / "server.log"
    with serving(CHECKPOINT, "nano-weak", port, log, "--max-model-len", "512") as process:
        run = begin(path, out)
        while len(kept(out)) < 3 and run.poll() is None:
            time.sleep(0.02)
        kill(process)
        _, errors = run.communicate(timeout=SECONDS_TO_WORK)
    assert run.returncode == 3, errors
    assert "gave no answer in" in errors
    assert "Check the server, then run the same command again" in " ".join(errors.split())
    before = kept(out)
    assert before

    with serving(CHECKPOINT, "nano-weak", port, log, "--max-model-len", "512"):
        run = begin(path, out)
        _, errors = run.communicate(timeout=SECONDS_TO_WORK)
    assert run.returncode == 0, errors
    assert f" {len(before)} reused, 0 cells failed" in " ".join(errors.split())
    after = kept(out)
    assert len(after) > len(before)
    assert {key: after[key] for key in before} == before
