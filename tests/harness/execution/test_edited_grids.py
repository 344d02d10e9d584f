"""After any edit of a grid, the tables of a continued run are those of a fresh run."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from prmcal.db import tables
from prmcal.db.reader import reading
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.storage.folder import RunFolder
from tests.one_process import run_here

NAMES = ["a", "b", "c", "d", "e"]
PLUGINS_OF: dict[str, list[dict[str, Any]]] = {
    "llms": [
        {"plugin": "synthetic-llm", "arguments": {"skill": 0.7}},
        {"plugin": "synthetic-llm", "arguments": {"skill": 0.9}},
    ],
    "prms": [
        {"plugin": "synthetic-prm", "arguments": {"skill": 0.95}},
        {"plugin": "synthetic-prm", "arguments": {"skill": 0.8}},
        {"plugin": "synthetic-prm", "arguments": {"flaw": "raises"}},
    ],
    "calibrators": [
        {"plugin": "uncalibrated"},
        {"plugin": "temperature"},
        {"plugin": "histogram", "arguments": {"bins": 3}},
        {"plugin": "spread"},
        {"plugin": "broken"},
    ],
    "datasets": [
        {"plugin": "synthetic-questions", "questions": 2},
        {"plugin": "synthetic-questions", "questions": 4},
        {"plugin": "synthetic-questions", "questions": 3, "arguments": {"longest": 2}},
    ],
    "strategies": [
        {"plugin": "pass@1"},
        {"plugin": "best-of-n"},
        {"plugin": "best-of-n + IAS"},
        {"plugin": "majority vote"},
    ],
}
SETTINGS: list[tuple[str, str, list[Any]]] = [
    ("measurement", "measured", [1, 2]),
    ("measurement", "follow_ups", [2, 3]),
    ("measurement", "bins", [3, 4]),
    ("scaling", "samples", [3, 4]),
    ("scaling", "targets", [[0.9], [0.9, 0.99], [0.99, 0.9]]),
    ("calibration", "questions", [2, 3]),
]
WITHOUT = {"runs": None, "jobs": {"seconds"}, "cells": {"source"}}
"""Tables and columns that hold times and ids of runs."""


def run(grid: dict[str, Any], folder: Path, only: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """Run a grid in a folder, and return the rows of all tables."""
    run_here(GridSpec.model_validate(grid), folder, only=only, drop_cells=True)
    rows = {}
    with reading(RunFolder(folder).published) as connection:
        for name, table in tables.Base.metadata.tables.items():
            without = WITHOUT.get(name, set())
            if without is not None:
                columns = [column for column in table.columns if column.name not in without]
                found = connection.execute(table.select().with_only_columns(*columns))
                rows[name] = sorted(repr(tuple(row)) for row in found)
    return rows


class EditedGrid(RuleBasedStateMachine):
    """Edits of a grid, and runs of it in one folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.grid: dict[str, Any] = {
            "name": "edited",
            "seed": 1,
            **{kind: [{"name": "a", **plugins[0]}] for kind, plugins in PLUGINS_OF.items()},
            "calibration": {
                "name": "synthetic-questions",
                "questions": 2,
                "trajectories": 1,
                "follow_ups": 2,
            },
            "measurement": {"measured": 1, "follow_ups": 2, "bins": 3, "replicates": 100},
            "scaling": {"samples": 3, "targets": [0.9], "levels": [0.5]},
            "shards": {"questions": 3, "trajectories": 2},
            "league": True,
        }
        self.grid["calibrators"].append({"name": "b", **PLUGINS_OF["calibrators"][1]})
        run(self.grid, self.folder / "continued")

    def teardown(self) -> None:
        try:
            assert run(self.grid, self.folder / "continued") == run(self.grid, self.folder / "fresh")
        finally:
            shutil.rmtree(self.folder)

    @rule(kind=st.sampled_from([*PLUGINS_OF]), place=st.integers(0, 4), name=st.sampled_from(NAMES))
    def rename(self, kind: str, place: int, name: str) -> None:
        """Rename a plugin. One that has the name gets the old one."""
        plugins = self.grid[kind]
        renamed = plugins[place % len(plugins)]
        for other in plugins:
            if other["name"] == name:
                other["name"] = renamed["name"]
        renamed["name"] = name

    @rule(kind=st.sampled_from([*PLUGINS_OF]), place=st.integers(0, 4))
    def give_a_second_name(self, kind: str, place: int) -> None:
        plugins = self.grid[kind]
        self._add(kind, plugins[place % len(plugins)])

    @rule(kind=st.sampled_from([*PLUGINS_OF]), place=st.integers(0, 4))
    def add(self, kind: str, place: int) -> None:
        self._add(kind, PLUGINS_OF[kind][place % len(PLUGINS_OF[kind])])

    def _add(self, kind: str, plugin: dict[str, Any]) -> None:
        free = [name for name in NAMES if name not in [each["name"] for each in self.grid[kind]]]
        if free and len(self.grid[kind]) < 3:
            self.grid[kind].append({**copy.deepcopy(plugin), "name": free[0]})

    @rule(kind=st.sampled_from([*PLUGINS_OF]), place=st.integers(0, 4))
    def remove(self, kind: str, place: int) -> None:
        plugins = self.grid[kind]
        if len(plugins) > 1:
            del plugins[place % len(plugins)]

    @rule(kind=st.sampled_from([*PLUGINS_OF]))
    def reverse(self, kind: str) -> None:
        self.grid[kind].reverse()

    @rule(setting=st.sampled_from(SETTINGS), choice=st.integers(0, 2))
    def change_a_setting(self, setting: tuple[str, str, list[Any]], choice: int) -> None:
        part, name, values = setting
        self.grid[part][name] = values[choice % len(values)]

    @rule()
    def switch_the_league(self) -> None:
        self.grid["league"] = not self.grid["league"]

    @rule(place=st.integers(0, 4))
    def run_a_part(self, place: int) -> None:
        calibrators = self.grid["calibrators"]
        name = calibrators[place % len(calibrators)]["name"]
        run(self.grid, self.folder / "continued", {"calibrator": [name]})

    @rule()
    def run_all(self) -> None:
        run(self.grid, self.folder / "continued")


TestEditedGrid = EditedGrid.TestCase
TestEditedGrid.settings = settings(
    max_examples=3, stateful_step_count=6, deadline=None, derandomize=True, phases=[Phase.generate]
)
