"""A small run of the nano models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import prmcal
from tests.shared import made_once

GRID: dict[str, Any] = {
    "name": "small-nano",
    "seed": 1,
    "llms": [
        {
            "name": "nano-weak",
            "plugin": "transformers",
            "arguments": {"checkpoint": "nano:weak", "dtype": "float32"},
        }
    ],
    "prms": [{"name": "nano-prm", "plugin": "qwen", "arguments": {"checkpoint": "nano:prm", "dtype": "float32"}}],
    "calibrators": [
        "uncalibrated",
        "isotonic",
        {"name": "quantiles", "plugin": "monotone-quantile"},
    ],
    "calibration": {
        "name": "nano-math",
        "split": "calibration",
        "questions": 12,
        "trajectories": 2,
        "follow_ups": 4,
    },
    "datasets": [{"name": "nano-math", "split": "test", "questions": 5}],
    "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256},
    "measurement": {"measured": 1, "follow_ups": 4, "bins": 5, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.99], "levels": [0.5]},
    "shards": {"questions": 5, "trajectories": 8},
    "league": True,
    "strategies": [
        "pass@1",
        "best-of-n",
        "best-of-n + IAS",
        {"name": "search", "plugin": "beam search", "arguments": {"width": 2, "expansions": 2}},
    ],
}


def nano_run(factory: pytest.TempPathFactory) -> Path:
    """The folder of the run. All processes of the tests share it. Tests must not write to it."""

    def make(folder: Path) -> None:
        prmcal.run(GRID, folder, workers=1)

    return made_once(factory, "nano-run", make)
