"""Whole runs of a synthetic grid: what they tell, what they repeat, and input that they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, exported, grid, run_arguments


def test_a_run_tells_little_and_its_log_everything(prmcal: Prmcal, tmp_path: Path) -> None:
    path, out = grid(tmp_path), tmp_path / "out"
    log = out / "run.log"
    told = prmcal(*run_arguments(path, out, quiet=False), "--limit", 5)
    assert told.returncode == 0, told.stderr
    assert told.stdout == ""
    lines = told.stderr.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines[:-2])) <= 100
    assert "Brier reduction" in told.stderr
    assert lines[-2:] == [f"Next: prmcal leaderboard {out} --explain", f"      prmcal dashboard {out}"]
    shards = len(list(out.glob("artifacts/*/*/artifact.json")))
    assert sum(" s  " in line for line in log.read_text().splitlines()) == shards
    assert {row["questions"] for row in json.loads(render_leaderboard(out, "scaling", "json"))} == {5}
    quiet = prmcal(*run_arguments(path, out, quiet=False), "--limit", 5, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    log.unlink()
    log.mkdir()
    refused = prmcal(*run_arguments(path, out, quiet=False))
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "cannot be written" in refused.stderr


def test_the_status_is_the_same_in_words_and_as_data(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    found = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert set(found) == {
        "grid", "directory", "state", "started_at", "running_since", "workers", "seconds_left", "log", "shards",
        "cells", "jobs", "failures", "graders",
    }  # fmt: skip
    assert (found["state"], found["running_since"], found["seconds_left"]) == ("done", None, 0.0)
    assert found["shards"]["done"] == found["shards"]["total"] > 0 == found["shards"]["left"]
    assert found["cells"]["done"] == found["cells"]["total"] > 0
    assert sum(each["done"] for each in found["jobs"]) == found["shards"]["done"]
    text = prmcal("status", out).stdout
    assert f"done, 100% ({found['shards']['total']} of {found['shards']['total']} shards)" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    assert prmcal("status", out, "--format", "csv").returncode == ExitCode.BAD_INPUT


def test_a_second_run_computes_nothing(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    path, out = finished
    before = (out / "results.duckdb").stat().st_mtime_ns
    again = prmcal(*run_arguments(path, out, quiet=False))
    assert " 0 shards computed," in again.stderr
    assert (out / "results.duckdb").stat().st_mtime_ns == before  # Nothing is compared or written again.
    # A run that was killed may have left cells without their comparisons.
    with duckdb.connect(str(out / "results.duckdb")) as database:
        database.execute("DELETE FROM comparisons")
        database.execute("UPDATE runs SET status = 'interrupted'")
    assert " 0 shards computed," in prmcal(*run_arguments(path, out, quiet=False)).stderr
    with duckdb.connect(str(out / "results.duckdb"), read_only=True) as database:
        assert database.execute("SELECT count(*) FROM comparisons").fetchone() != (0,)


def test_artifacts_with_a_flipped_bit_are_named_and_computed_again(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    path, out = finished
    before = exported(out)
    tables = {table.parents[1].name: table for table in sorted(out.glob("artifacts/*/*/*.parquet"))}
    contents = {table: table.read_bytes() for table in tables.values()}
    for table, content in contents.items():
        table.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = " ".join(prmcal(*run_arguments(path, out, quiet=False)).stderr.split())
    assert f" {len(tables)} shards computed," in again
    assert f"Damaged artifacts are computed again: {len(tables)}. {out / 'run.log'} names them." in again
    assert all(str(table.parent) in (out / "run.log").read_text() for table in tables.values())
    assert {table: table.read_bytes() for table in tables.values()} == contents
    assert exported(out) == before


def test_the_database_is_rebuilt_from_the_artifacts(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    before = exported(out)
    (out / "leaderboard.duckdb").unlink()
    (out / "results.duckdb").write_bytes(b"not a database")
    rebuilt = prmcal("rebuild", out)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert exported(out) == before


def test_plan_and_status_tell_what_is_left(prmcal: Prmcal, tmp_path: Path, finished: tuple[Path, Path]) -> None:
    path, out = finished
    fresh = prmcal("plan", path, "--plugin", SYNTHETIC)
    assert "of which 0 are finished" in fresh.stdout
    assert "The time is not known yet" in fresh.stdout
    bigger = grid(tmp_path, scaling={"samples": 8, "targets": [0.9], "levels": [0.1]})
    estimated = prmcal("plan", bigger, "--out", out, "--plugin", SYNTHETIC)
    assert "estimated from finished shards" in estimated.stdout
    rollout = next(line for line in estimated.stdout.splitlines() if line.strip().startswith("rollout"))
    assert rollout.split()[1:5] == ["2", "6", "4", "32"]
    assert "done" in prmcal("status", out).stdout


def test_a_cell_is_followed_down_to_its_trajectories(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    shown = prmcal("show", "calibration/weak/verifier/isotonic/synthetic-questions", "--dir", out).stdout
    for expected in (
        "brier_corrected",
        "rollout",
        "success",
        "content",
        "Trajectory 0 of",
        "\\boxed{",
    ):
        assert expected in shown
    unknown = prmcal("show", "calibration/weak/verifier/isotonik/synthetic-questions", "--dir", out)
    assert unknown.returncode == 2
    assert "'calibration/weak/verifier/isotonic/synthetic-questions'" in unknown.stderr


def test_a_name_that_is_taken_is_refused(prmcal: Prmcal, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from prmcal import Calibrator, calibrator\n\n"
        "@calibrator('isotonic')\nclass Mine(Calibrator):\n"
        "    def fit(self, features, k, n): return self\n"
        "    def predict(self, features): return features[:, None]\n"
    )
    refused = prmcal("list", "--plugin", path)
    assert refused.returncode == 2
    assert "The calibrator name 'isotonic' is already registered" in refused.stderr


def test_a_broken_line_of_a_data_set_is_named(prmcal: Prmcal, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n{"question": "2 + 2?",\n')
    datasets = [{"name": "mine", "plugin": "jsonl", "arguments": {"path": str(questions)}}]
    refused = prmcal("plan", grid(tmp_path, datasets=datasets), "--plugin", SYNTHETIC)
    assert refused.returncode == 2
    assert f"{questions}, line 2: it is not JSON" in refused.stderr
