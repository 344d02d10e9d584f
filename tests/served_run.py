"""A small run of the nano models, and servers of it as processes of their own."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import prmcal
from tests.conftest import PLUGINS, environment
from tests.forked import begun_command
from tests.shared import made_once

CELL = "calibration/nano-weak/nano-prm/quantiles/nano-math"
NAN, GONE = "give NaN", "go away"
"""What a question has for which the PRM (tests/plugins/faulty_prm.py) returns NaN, or its server goes away."""
SECONDS = 600
BODY = 200_000
"""The largest body that the server of tests takes, in bytes."""
GRID: dict[str, Any] = {
    "name": "served",
    "seed": 1,
    "llms": [
        {
            "name": "nano-weak",
            "plugin": "transformers",
            "arguments": {"checkpoint": "nano:weak", "dtype": "float32"},
        }
    ],
    "prms": [{"name": "nano-prm", "plugin": "faulty-nano-prm", "arguments": {"dtype": "float32"}}],
    "calibrators": [
        "uncalibrated",
        "isotonic",
        {"name": "quantiles", "plugin": "monotone-quantile"},
        {
            "name": "lora",
            "plugin": "quantile-lora",
            "arguments": {"layers": "all", "epochs": 1, "head": "full"},
        },
    ],
    "calibration": {
        "name": "nano-math",
        "split": "calibration",
        "questions": 12,
        "trajectories": 2,
        "follow_ups": 2,
        "graders": ["default", "exact"],
    },
    "datasets": [{"name": "nano-math", "split": "test", "questions": 4}],
    "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256},
    "measurement": {"measured": 1, "follow_ups": 2, "bins": 5, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.99], "levels": [0.1]},
    "strategies": ["pass@1", "best-of-n", "best-of-n + IAS"],
}


def shared_run(factory: pytest.TempPathFactory) -> Path:
    """The folder of the run. All processes of the tests share it. Tests must not write to it."""
    plugins = [PLUGINS / "faulty_prm.py"]
    return made_once(factory, "served-run", lambda folder: prmcal.run(GRID, folder, workers=1, plugins=plugins))


@contextmanager
def served(folder: Path, *options: object) -> Iterator[tuple[str, BaseProcess, str]]:
    """Start ``prmcal serve`` on a free port. Yield its address, its process and what it said once it is ready."""
    import httpx2

    with tempfile.TemporaryDirectory() as streams:
        arguments = ["serve", folder, "--port", 0, *options]
        process = begun_command(list(map(str, arguments)), environment(), Path.cwd(), Path(streams))
        try:
            end = time.monotonic() + SECONDS
            while not (found := re.search(r"at (http://\S+)\. ", said := words_in(Path(streams)))):
                assert process.exitcode is None and time.monotonic() < end, said
                time.sleep(0.05)
            while httpx2.get(f"{found.group(1)}/health").status_code != 200 and time.monotonic() < end:
                time.sleep(0.05)
            yield found.group(1), process, words_in(Path(streams))
        finally:
            process.kill()


def words_in(streams: Path) -> str:
    """What a command wrote to both streams."""
    return "".join(file.read_text() for file in sorted(streams.iterdir()))
