"""Small runs to merge: a whole grid, and parts of it with other cuts and orders."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from prmcal.db.catalog import leaderboard
from prmcal.db.queries.runs import PROVENANCE
from prmcal.db.reader import reading
from prmcal.db.run_folder import artifacts_root, published_path
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.reading import grid_of
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS

GRID: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
    "calibrators": ["uncalibrated", "temperature", "isotonic"],
    "calibration": {"name": "synthetic-questions", "questions": 12, "trajectories": 2, "follow_ups": 4},
    "datasets": [
        {"name": "synthetic-questions", "questions": 12},
        {
            "name": "long",
            "plugin": "synthetic-questions",
            "arguments": {"longest": 12},
            "questions": 10,
        },
    ],
    "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
    "shards": {"questions": 20, "trajectories": 8},
    "league": True,
}
WEAK = GRID["llms"][0]


@dataclass(frozen=True)
class Part:
    """A part of the grid: what is changed in it, and the cells that the run is asked for."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)


# Most parts have the calibrators and the data sets in the order of the whole grid, but one does not.
PARTS = {
    "llm": Part({"llms": [WEAK]}),
    "reversed": Part({"calibrators": GRID["calibrators"][::-1], "datasets": GRID["datasets"][::-1]}),
    "dataset": Part({"datasets": GRID["datasets"][1:]}),
    "only": Part({}, {"llm": ["strong"], "dataset": ["synthetic-questions"]}),
}


def run(out: Path, part: Part = Part(), whole: Path | None = None) -> Path:
    """Run a part of the grid. With the folder of the whole grid, artifacts of equal keys are taken from it."""
    load_plugin_file(PLUGINS / "synthetic.py")
    if whole is not None:
        shutil.copytree(artifacts_root(whole), artifacts_root(out), copy_function=os.link)
    grid = grid_of(GRID | dict(part.changes), "the grid")
    run_grid(grid, out, 1, [PLUGINS / "synthetic.py"], stream=io.StringIO(), only=part.only)
    return out


def leaderboards(directory: Path) -> dict[str, str]:
    """The leaderboards of a folder as files, without the columns that only a merged leaderboard has, and times."""
    found: dict[str, str] = {}
    with reading(published_path(directory)) as source:
        for table in LEADERBOARDS:
            frame = leaderboard(source, table)
            found[table] = frame[[name for name in frame if name not in MERGED_ONLY]].to_csv(index=False)
    return found


MERGED_ONLY = {
    *PROVENANCE,
    "fit_seconds",  # the mean of the shortest times, which are those of several machines
}
