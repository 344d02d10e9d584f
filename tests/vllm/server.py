"""vLLM's own server for a shipped model."""

from __future__ import annotations

import os
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prmcal.registry.models.checkpoints import resolve_checkpoint
from tests import forked
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
def serving(checkpoint: str, name: str, port: int, log: Path, *settings: str) -> Iterator[None]:
    """The server once it answers, until the end."""
    model = ["--model", str(resolve_checkpoint(checkpoint)), "--served-model-name", name]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    process = forked._CONTEXT.Process(target=_serve, args=([*model, *SETTINGS, *settings, *where], log))
    process.start()
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while not answers(port):
            assert process.is_alive(), log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield
    finally:
        process.terminate()  # It ends its engine.
        process.join(SECONDS_TO_START)


def _serve(arguments: list[str], log: Path) -> None:
    from vllm.entrypoints.launchers.api_server import entry

    # The engine has no worker process of its own.
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    os.environ.update(environment() | quiet)
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.argv = ["vllm", *arguments]
    entry.main()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:  # Nobody listens there yet, or not any more.
        return False
