"""A run whose LLM is served by vLLM: the server is killed in the middle, and with another one the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from prmcal.registry.models.checkpoints import resolve_checkpoint
from tests.conftest import ROOT, command, environment

CHECKPOINT = "nano:weak"
SETTINGS = ["--dtype", "float32", "--max-model-len", "512", "--block-size", "32", "--enforce-eager"]
# A prefill that is split ends the engine on a CPU where requests have seeds: none is.
SETTINGS += ["--max-num-batched-tokens", "65536", "--max-num-seqs", "64"]
SECONDS_TO_START = 400
SECONDS_TO_WORK = 300


@contextmanager
def server(port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """vLLM's own server for the weakest of the shipped policies, once it answers; killed at the end."""
    module = "vllm.entrypoints.openai.api_server"
    model = ["--model", str(resolve_checkpoint(CHECKPOINT)), "--served-model-name", "nano-weak"]
    line = [sys.executable, "-m", module, *model, *SETTINGS, "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            line, env=environment() | quiet, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while not answers(port):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield process
    finally:
        kill(process)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:  # Nobody listens there yet, or not any more.
        return False


def kill(process: subprocess.Popen[bytes]) -> None:
    """The server and the engine that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
    with server(port, log) as process:
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

    with server(port, log):
        run = begin(path, out)
        _, errors = run.communicate(timeout=SECONDS_TO_WORK)
    assert run.returncode == 0, errors
    assert f" {len(before)} reused, 0 cells failed" in " ".join(errors.split())
    after = kept(out)
    assert len(after) > len(before)
    assert {key: after[key] for key in before} == before
