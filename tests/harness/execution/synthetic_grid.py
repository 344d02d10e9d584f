"""A small synthetic grid, and the command that runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import PLUGINS, ROOT, command, environment

SYNTHETIC = PLUGINS / "synthetic.py"


def grid(folder: Path, **changes: Any) -> Path:
    """A small synthetic grid, with some keys changed."""
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    few = {"name": "synthetic-questions", "questions": 8}
    data |= {
        "llms": data["llms"][:1],
        "calibrators": ["uncalibrated", "isotonic"],
        "datasets": [few],
        "calibration": {**few, "trajectories": 2, "follow_ups": 2},
        "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
        "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
        "shards": {"questions": 4, "trajectories": 4},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data | changes))
    return path


def run_arguments(path: Path, out: Path, workers: int = 1, quiet: bool = True) -> list[object]:
    """The command that runs a grid. What it found is printed only if it is not quiet, since that takes long."""
    return ["run", path, "--out", out, "--workers", workers, *["--quiet"] * quiet, "--plugin", SYNTHETIC]


def exported(out: Path) -> str:
    """What `prmcal leaderboard --format csv` prints of both tables."""
    return "".join(render_leaderboard(out, table, "csv") for table in ("calibration", "scaling"))


def runs(number: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def started(arguments: list[object]) -> subprocess.Popen[str]:
    """Start a command in a group of processes of its own."""
    return subprocess.Popen(
        command(*arguments),
        env=environment(),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
