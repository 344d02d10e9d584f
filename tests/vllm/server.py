"""vLLM's own server for a shipped model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prmcal.registry.models.checkpoints import resolve_checkpoint
from tests.conftest import environment

SETTINGS = ["--dtype", "float32", "--block-size", "32", "--enforce-eager"]
# A prefill that is split ends the engine on a CPU where requests have seeds: none is.
SETTINGS += ["--max-num-batched-tokens", "65536", "--max-num-seqs", "64"]
SECONDS_TO_START = 600


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(checkpoint: str, name: str, port: int, log: Path, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server once it answers; killed at the end."""
    module = "vllm.entrypoints.openai.api_server"
    model = ["--model", str(resolve_checkpoint(checkpoint)), "--served-model-name", name]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    line = [sys.executable, "-m", module, *model, *SETTINGS, *settings, *where]
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    quiet["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # The engine has no worker process of its own.
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
