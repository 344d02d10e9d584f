"""A small run of the nano models, and bundles of it, which tests copy and change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import prmcal
from prmcal.errors import RunError
from prmcal.harness.share.bundle import SUBMISSION_FILE, About
from prmcal.harness.share.checks import unpack
from prmcal.harness.share.writing import write_bundle
from tests.shared import made_once

__all__ = ["GRID", "bundle_of", "sealed", "verified_run"]

ABOUT = About("A. Tester", "CC-BY-4.0")
GRID: dict[str, Any] = {
    "name": "verified",
    "seed": 1,
    "llms": [
        {
            "name": "nano-weak",
            "plugin": "transformers",
            "arguments": {"checkpoint": "nano:weak", "dtype": "float32"},
        }
    ],
    "prms": [
        {"name": "nano-prm", "plugin": "qwen", "arguments": {"checkpoint": "nano:prm", "dtype": "float32"}}
    ],
    "calibrators": [
        "uncalibrated",
        "temperature",
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
    "datasets": [{"name": "nano-math", "split": "test", "questions": 10}],
    "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256},
    "measurement": {"measured": 2, "follow_ups": 8, "bins": 5, "replicates": 100},
    "scaling": {"samples": 8, "targets": [0.99], "levels": [0.5]},
    "shards": {"questions": 5, "trajectories": 8},
    "league": True,
    "strategies": [
        "pass@1",
        "best-of-n",
        "best-of-n + IAS",
        {"name": "search", "plugin": "beam search", "arguments": {"width": 2, "expansions": 2}},
    ],
}


def verified_run(factory: pytest.TempPathFactory) -> Path:
    """The folder of the run. All processes of the tests share it. Tests must not write to it."""

    def make(folder: Path) -> None:
        prmcal.run(GRID, folder / "run", workers=1)
        write_bundle(folder / "run", None, folder / "bundle", ABOUT, texts=True)
        unpack(folder / "bundle", folder / "unpacked")

    return made_once(factory, "verified-run", make) / "run"


def bundle_of(run: Path, folder: Path) -> Path:
    """Copy the unpacked bundle of the run, with texts, to a folder, where it can be changed."""
    return Path(shutil.copytree(run.parent / "unpacked", folder))


def sealed(folder: Path) -> Path:
    """Write a bundle of an unpacked bundle that was changed, with a list of files that fits.

    What `prmcal submit` refuses to write is made the folder of a run, which has no such list.
    """
    bundle = folder.with_suffix(".sealed.prmcal")
    try:
        write_bundle(folder, None, bundle, About("A. Forger", "CC-BY-4.0"), texts=True)
    except RunError:
        (folder / SUBMISSION_FILE).unlink()
        return folder
    return bundle
