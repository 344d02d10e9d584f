"""A small run of the nano models, and servers of it as processes of their own."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import prmcal
from tests.conftest import PLUGINS, command, environment
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
def served(folder: Path, *options: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start ``prmcal serve`` on a free port. Yield its address and its process once it is ready."""
    import httpx2

    with subprocess.Popen(
        command("serve", folder, "--port", 0, *options),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            found = re.search(r"at (http://\S+)\. ", first)
            assert found, first + process.stdout.read()
            address = found.group(1)
            end = time.monotonic() + SECONDS
            while httpx2.get(f"{address}/health").status_code != 200 and time.monotonic() < end:
                time.sleep(0.05)
            yield address, process
        finally:
            process.kill()
