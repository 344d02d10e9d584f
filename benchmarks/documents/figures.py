"""The figures of the finished nano grid that the documents quote, kept as small tables in ``docs/nano``.

``demo.txt`` is what ``make demo`` prints in the end. ``about.json`` says which machine and versions they come from. Its
``keys`` is a hash of the keys of all cells, so that a test sees when a change of the code has made the figures old.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.documents.nano import overestimation, verification, world
from prmcal.db.catalog import comparisons, leaderboard, runs
from prmcal.db.metrics import COORDINATES, MAIN_METRICS, SETTING, Leaderboard
from prmcal.db.overview.query import league, league_frame, overview, ranking_frame
from prmcal.db.queries.runs import planned_shards
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.grids import shipped_grids
from prmcal.harness.cli.leaderboard import overview_text
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.store import content_key

FIGURES = Path(__file__).parents[2] / "docs" / "nano"

_METRICS: dict[Leaderboard, tuple[str, ...]] = {
    "calibration": MAIN_METRICS["calibration"],
    "scaling": (*MAIN_METRICS["scaling"], "samples"),
}
_PARTS = ("", "_low", "_high", "_standing")
_PAPERS = "quantile-lora"  # the calibrator of the paper
_TABLES = ("ranking", "calibration", "scaling", "league", "overestimation", "verification", "world")
_DEMO_WIDTH = 80


@dataclass(frozen=True, eq=False)
class Figures:
    """What the documents quote: rankings, leaderboards, tables of `nano`, the demo and the machine."""

    ranking: pd.DataFrame
    calibration: pd.DataFrame
    scaling: pd.DataFrame
    league: pd.DataFrame
    overestimation: pd.DataFrame
    verification: pd.DataFrame
    world: pd.DataFrame
    demo: str
    about: dict[str, Any]


def keys_of_the_nano_grid() -> str:
    """Return a hash of the keys of all cells of ``grids/nano.yaml``, by this version of the code."""
    plan = build_plan(read_grid(shipped_grids()["nano"]))
    return content_key(sorted(cell.job.key for cell in plan.cells))


def record(directory: Path, demo: Path) -> None:
    """Write the figures of a finished run of the nano grid, and of the demo, to ``docs/nano``."""
    source = published_path(directory)
    tables = {
        "ranking": ranking_frame(overview(source)).round(6),
        "league": league_frame(league(source)).round(6),
        "overestimation": overestimation(source),
        "verification": verification(source),
        "world": world(source).round(6),
        "calibration": _with_differences(
            leaderboard(source, "calibration"), comparisons(source), MAIN_METRICS["calibration"]
        ),
        "scaling": _main_columns(leaderboard(source, "scaling"), "scaling"),
    }
    if unfinished := [status for name in _METRICS for status in tables[name]["status"] if status != "done"]:
        raise SystemExit(f"{len(unfinished)} cells of {directory} are not done. Finish the run first.")
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(FIGURES / f"{name}.csv", index=False, lineterminator="\n")
    text = overview_text(overview(published_path(demo)), Path("runs/demo"), _DEMO_WIDTH)
    (FIGURES / "demo.txt").write_text(text, encoding="utf-8")
    last = runs(source).iloc[-1]
    kinds = planned_shards(source).set_index("kind")
    seconds = kinds["seconds_per_shard"].astype(float) * kinds["shard_keys"].map(len)
    cells = sum(len(tables[name]) for name in _METRICS) + len(leaderboard(source, "league"))
    about = {
        "keys": keys_of_the_nano_grid(),
        "cells": cells,
        "hardware": last["hardware"],
        "torch": last["packages"].get("torch"),
        "timed_cells": cells,
        "worker_seconds": {kind: round(float(value)) for kind, value in seconds.items()},
    }
    (FIGURES / "about.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


def load() -> Figures:
    """Read the figures."""
    tables = {name: pd.read_csv(FIGURES / f"{name}.csv") for name in _TABLES}
    demo = (FIGURES / "demo.txt").read_text(encoding="utf-8")
    return Figures(**tables, demo=demo, about=json.loads((FIGURES / "about.json").read_text()))


def _with_differences(frame: pd.DataFrame, tests: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the main columns of the cells, and whether each differs significantly from the paper's calibrator."""
    real = tests[tests["p_adjusted"] < SIGNIFICANCE]
    different = {frozenset(test) for test in zip(real["metric"], real["cell_a"], real["cell_b"], strict=True)}
    papers = frame[frame["calibrator"] == _PAPERS].set_index(SETTING)["cell_id"]
    papers_cells = papers.reindex(pd.MultiIndex.from_frame(frame[SETTING]))
    columns = _main_columns(frame, "calibration")
    for metric in metrics:
        pairs = zip(frame["cell_id"], papers_cells, strict=True)
        columns[f"{metric}_differs"] = [frozenset((metric, *pair)) in different for pair in pairs]
    return columns


def _main_columns(frame: pd.DataFrame, table: Leaderboard) -> pd.DataFrame:
    values = [f"{metric}{part}" for metric in _METRICS[table] for part in _PARTS]
    chosen = frame[["number", *COORDINATES, *values, "rows", "questions", "status", "reason"]]
    return chosen.round(dict.fromkeys(values, 6))
