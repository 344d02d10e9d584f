"""The differences between two leaderboards, with tests, on the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import Prmcal


def test_two_seeds_differ_in_the_seed(prmcal: Prmcal, parts: Mapping[str, Path], second_seed: Path) -> None:
    told = prmcal("diff", parts["llm"], second_seed)
    assert told.returncode == 0, told.stderr
    assert all(len(line) <= 100 for line in told.stdout.splitlines())
    text = " ".join(told.stdout.split())
    assert "6 finished cells in both" in text and "6 were measured on the same questions" in text
    assert "Versions and conditions that differ: seed: 3 in A, 4 in B" in text


def test_cells_of_one_leaderboard(prmcal: Prmcal, parts: Mapping[str, Path], whole: Path) -> None:
    found = json.loads(prmcal("diff", whole, parts["llm"], "--format", "json", "--table", "league").stdout)
    assert not found["only_b"] and not found["conditions"]
    assert len(found["only_a"]) == len(found["both"]) and all("/strong/" in cell for cell in found["only_a"])
    assert all(row["difference"] == 0 for row in found["both"])
    rows = list(csv.DictReader(io.StringIO(prmcal("diff", whole, parts["llm"], "--format", "csv").stdout)))
    assert {row["llm"] for row in rows} == {"weak"}
    told = prmcal("diff", whole, parts["llm"], "--format", "markdown", "--all").stdout
    assert "| A | B | A minus B |" in told
    # A table without rows is left out.
    assert "| A |" not in prmcal("diff", whole, parts["llm"], "--format", "markdown").stdout


def test_bad_values_are_refused(prmcal: Prmcal, whole: Path, tmp_path: Path) -> None:
    told = prmcal("diff", whole, tmp_path)
    assert told.returncode == 2 and "No grid was run" in told.stderr
    told = prmcal("diff", whole, whole, "--table", "costs")
    assert told.returncode == 2 and "--table must be one of calibration, scaling, league" in told.stderr
