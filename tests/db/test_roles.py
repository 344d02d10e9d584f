"""Plugins that queries must tell apart, and that nothing else is treated by its name."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import prmcal.db
import prmcal.harness
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import database_path
from prmcal.db.tables import Cell, JobInput, PluginRow
from prmcal.db.writer import Writer
from prmcal.registry.plugins import KINDS
from tests.db import factory
from tests.stored import record

DB, HARNESS = (Path(package.__file__ or "").parent for package in (prmcal.db, prmcal.harness))
NAMES = {name for kind in ("calibrator", "strategy") for name in KINDS[kind].names()}


def constants(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_only_one_module_contains_registered_names() -> None:
    files = [path for folder in (DB, HARNESS / "report", HARNESS / "site") for path in folder.rglob("*.py")]
    found = {(path.name, name) for path in files for name in constants(path) if name in NAMES}
    others = {"metrics.py": {"pass@N"}}  # also the title of a metric
    assert {file for file, name in found if name not in others.get(file, ())} == {"cells.py"}


def test_a_role_is_given_by_the_registered_name_and_not_by_the_name_in_the_grid(results: Path, tmp_path: Path) -> None:
    shutil.copy(database_path(results), database_path(tmp_path))
    writer = Writer(database_path(tmp_path))
    assert catalog.with_role(writer.path, "baseline") == ["uncalibrated"]
    other: dict[str, Any] = {"arguments": {}, "identity": {}}
    record(
        writer,
        [
            PluginRow(kind="calibrator", name="as it is", plugin="uncalibrated", position=9, **other),
            PluginRow(kind="calibrator", name="oracle IAS", plugin="isotonic", position=10, **other),
        ],
    )
    assert catalog.with_role(writer.path, "baseline") == ["uncalibrated", "as it is"]
    assert catalog.with_role(writer.path, "reference") == ["oracle IAS"]


@pytest.mark.parametrize(("reads", "needs_the_truth"), [("success", True), ("rollout", False)])
def test_a_strategy_that_reads_success_counts_does_not_compete(
    results: Path, tmp_path: Path, reads: str, needs_the_truth: bool
) -> None:
    shutil.copy(database_path(results), database_path(tmp_path))
    writer = Writer(database_path(tmp_path))
    where: dict[str, Any] = {"llm": "weak", "dataset": "nano-math", "prm": "qwen", "strategy": "my own"}
    name = cell_id("scaling", **where)
    record(
        writer,
        [
            *factory.job("mine", "strategy", llm="weak", dataset="nano-math"),
            JobInput(job_key="mine", input_key=f"{reads}-weak-nano-math"),
            Cell(cell_id=name, leaderboard="scaling", job_key="mine", status="done", **where),
        ],
    )
    references = catalog.references(writer.path)
    assert (name in references) == needs_the_truth
    assert cell_id("scaling", "weak", "nano-math", prm="qwen", strategy="oracle IAS") in references
