"""Whole runs of a synthetic grid: interrupted, damaged, locked, changed."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.commands.results.leaderboard import render_leaderboard
from tests.conftest import ROOT, Prmcal, command, environment
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid, run_arguments


def exported(out: Path) -> str:
    """What `prmcal leaderboard --format csv` prints of both tables."""
    return "".join(render_leaderboard(out, table, "csv") for table in ("calibration", "scaling"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> tuple[Path, Path]:
    """A grid file and the folder of its uninterrupted run."""
    folder = tmp_path_factory.mktemp("finished")
    path, out = grid(folder), folder / "out"
    done = prmcal(*run_arguments(path, out, workers=2))
    assert done.returncode == 0, done.stderr
    return path, out


def test_killed_five_times_the_leaderboard_is_the_same_to_the_byte(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    path, whole = finished
    out = tmp_path / "out"
    shards = len(list(whole.glob("artifacts/*/*/artifact.json")))
    moments = sorted(random.sample(range(shards), 5))
    for moment in moments:
        process = subprocess.Popen(
            command(*run_arguments(path, out, workers=2)),
            env=environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(list(out.glob("artifacts/*/*/artifact.json"))) < moment and process.poll() is None:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed = prmcal(*run_arguments(path, out))
    assert resumed.returncode == 0, resumed.stderr
    assert exported(out) == exported(whole), f"killed after {moments} shards"


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """A shell that runs the tests in the background has told all of its children to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, heeded_interrupts: None) -> None:
    out = tmp_path / "out"
    slow = grid(tmp_path, llms=[{"name": "slow", "plugin": "synthetic-llm", "arguments": {"pause": 1.0}}])
    process = subprocess.Popen(
        command(*run_arguments(slow, out, workers=2)),
        env=environment(),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(out.glob("artifacts/*/*/artifact.json")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert (
        errors.splitlines()[-1]
        == "Interrupted. Finished work is kept. To continue, run the same command again."
    )
    assert "Traceback" not in errors


def test_a_run_tells_little_and_its_log_everything(prmcal: Prmcal, tmp_path: Path) -> None:
    path, out, log = grid(tmp_path), tmp_path / "out", tmp_path / "logs" / "my.log"
    told = prmcal(*run_arguments(path, out), "--log-file", log)
    assert told.returncode == 0, told.stderr
    assert told.stdout == ""
    lines = told.stderr.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines[:-3])) <= 100
    assert "Best calibrator:" in told.stderr
    assert lines[-3:] == [
        "Next:",
        f"  prmcal leaderboard {out}",
        f"  prmcal dashboard {out}",
    ]
    shards = len(list(out.glob("artifacts/*/*/artifact.json")))
    assert sum(" s  " in line for line in log.read_text().splitlines()) == shards
    assert not (out / "run.log").exists()
    quiet = prmcal(*run_arguments(path, out), "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    refused = prmcal(*run_arguments(path, out), "--log-file", tmp_path)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "cannot be written" in refused.stderr
    assert "Choose another --log-file" in " ".join(refused.stderr.split())


def test_the_status_is_the_same_in_words_and_as_data(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    found = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert set(found) == {
        "grid", "directory", "state", "started_at", "running_since", "workers", "seconds_left", "log", "shards",
        "cells", "jobs", "failures", "crew",
    }  # fmt: skip
    assert (found["state"], found["running_since"], found["seconds_left"]) == ("done", None, 0.0)
    assert found["shards"]["done"] == found["shards"]["total"] > 0 == found["shards"]["left"]
    assert found["cells"]["done"] == found["cells"]["total"] > 0
    assert sum(each["done"] for each in found["jobs"]) == found["shards"]["done"]
    text = prmcal("status", out).stdout
    assert f"done, 100% ({found['shards']['total']} of {found['shards']['total']} shards)" in " ".join(
        text.split()
    )
    assert max(map(len, text.splitlines())) <= 100
    assert prmcal("status", out, "--format", "csv").returncode == ExitCode.BAD_INPUT


def test_a_second_run_computes_nothing(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    path, out = finished
    again = prmcal(*run_arguments(path, out))
    assert " 0 shards computed," in again.stderr


def test_an_artifact_truncated_by_hand_is_computed_again(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    path, out = finished
    before = exported(out)
    table = sorted(out.glob("artifacts/score/*/rewards.parquet"))[0]
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    again = prmcal(*run_arguments(path, out))
    assert " 1 shard computed," in again.stderr
    assert table.read_bytes() == content
    assert exported(out) == before


def test_the_database_is_rebuilt_from_the_artifacts(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    before = exported(out)
    (out / "results.duckdb").write_bytes(b"not a database")
    rebuilt = prmcal("rebuild", out)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert exported(out) == before
    (out / "results.duckdb").unlink()
    (out / "results.duckdb").mkdir()
    refused = prmcal("rebuild", out)
    assert refused.returncode == 2
    assert "results.duckdb cannot be deleted (Is a directory). Remove it" in " ".join(refused.stderr.split())
    (out / "results.duckdb").rmdir()
    assert prmcal("rebuild", out).returncode == 0


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    path, whole = finished
    out = tmp_path / "out"
    alone = prmcal(*run_arguments(path, out, workers=1))
    assert alone.returncode == 0, alone.stderr
    assert exported(out) == exported(whole)


def test_a_grown_grid_keeps_what_is_there(tmp_path: Path, prmcal: Prmcal) -> None:
    log = tmp_path / "generations.log"
    llms = [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7, "log": str(log)}}]
    out = tmp_path / "out"
    first = grid(tmp_path, llms=llms, calibrators=["uncalibrated"])
    assert prmcal(*run_arguments(first, out)).returncode == 0
    generations = log.read_text()
    both = {"llms": llms, "calibrators": ["uncalibrated", "temperature"]}
    assert prmcal(*run_arguments(grid(tmp_path, **both), out)).returncode == 0
    assert log.read_text() == generations
    table = exported(out)
    assert "temperature" in table and "uncalibrated" in table
    small = grid(tmp_path, llms=llms, calibrators=["temperature"])
    names = ("run.json", "plan.json", "failures.json", "results.duckdb", "leaderboard.duckdb")
    before = [(out / name).read_bytes() for name in names]
    refused = prmcal(*run_arguments(small, out))
    assert refused.returncode == ExitCode.BAD_INPUT
    message = " ".join(refused.stderr.split())
    lost = [line for line in table.splitlines() if ",uncalibrated," in line]
    assert f"The run would delete {len(lost)} finished cells of {out}, such as" in message
    assert "which this grid does not have. Nothing was changed. Choose another --out folder" in message
    assert [(out / name).read_bytes() for name in names] == before
    assert prmcal(*run_arguments(small, out), "--drop-cells").returncode == 0
    assert "uncalibrated" not in exported(out)
    assert f"earlier form of the grid are deleted: {len(lost)}." in (out / "run.log").read_text()
    again = prmcal(*run_arguments(grid(tmp_path, **both), out))
    assert " 0 shards computed," in again.stderr
    assert exported(out) == table


def test_changed_cells_that_a_run_is_not_asked_for_are_not_lost(tmp_path: Path, prmcal: Prmcal) -> None:
    out = tmp_path / "out"
    skills = {"weak": 0.7, "strong": 0.9}
    two = [
        {"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}}
        for name, skill in skills.items()
    ]
    small = {"llms": two, "calibrators": ["uncalibrated"], "strategies": ["pass@1"]}
    run = [*run_arguments(grid(tmp_path, **small), out), "--limit", 4]
    assert prmcal(*run).returncode == 0
    table = exported(out)
    assert prmcal(*run, "--only", "llm=weak").returncode == 0
    assert exported(out) == table
    grid(tmp_path, **small, seed=7)
    refused = prmcal(*run, "--only", "llm=weak")
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "2 finished cells" in refused.stderr
    assert "changed, and for which it is not asked. Nothing was changed. Run the whole grid" in " ".join(
        refused.stderr.split()
    )
    assert exported(out) == table
    assert prmcal(*run, "--only", "llm=weak", "--drop-cells").returncode == 0
    assert exported(out).count(",pending,") == 2


def test_a_locked_folder_names_the_process_that_holds_it(tmp_path: Path, prmcal: Prmcal) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with (out / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711\n")
        lock.flush()
        refused = prmcal(*run_arguments(grid(tmp_path), out))
    assert refused.returncode == 2
    assert "is locked by another run (process 4711)" in refused.stderr


def test_a_folder_of_another_grid_is_refused(
    prmcal: Prmcal, tmp_path: Path, finished: tuple[Path, Path]
) -> None:
    _, out = finished
    refused = prmcal(*run_arguments(grid(tmp_path, name="other"), out))
    assert refused.returncode == 2
    assert "belongs to the grid 'synthetic', not to 'other'" in refused.stderr


def test_a_folder_with_other_files_is_refused(prmcal: Prmcal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("dear diary")
    refused = prmcal(*run_arguments(grid(tmp_path), out))
    assert refused.returncode == 2
    assert "holds files that are not from a run" in refused.stderr
    assert [path.name for path in out.iterdir() if path.name != "run.lock"] == ["thesis.tex"]


def test_plan_and_status_tell_what_is_left(
    prmcal: Prmcal, tmp_path: Path, finished: tuple[Path, Path]
) -> None:
    path, out = finished
    fresh = prmcal("plan", path, "--plugin", SYNTHETIC)
    assert "of which 0 are finished" in fresh.stdout
    assert "The time is not known yet" in fresh.stdout
    bigger = grid(tmp_path, scaling={"samples": 32, "targets": [0.9, 0.99], "levels": [0.1]})
    estimated = prmcal("plan", bigger, "--out", out, "--plugin", SYNTHETIC)
    assert "estimated from finished shards" in estimated.stdout
    rollout = next(line for line in estimated.stdout.splitlines() if line.strip().startswith("rollout"))
    assert rollout.split()[1:5] == ["2", "10", "6", "640"]
    assert "Disk: about" in estimated.stdout
    assert "Disk" not in prmcal("plan", path, "--out", out, "--plugin", SYNTHETIC).stdout
    assert "done" in prmcal("status", out).stdout


def test_a_cell_is_followed_down_to_its_trajectories(prmcal: Prmcal, finished: tuple[Path, Path]) -> None:
    _, out = finished
    shown = prmcal("show", "calibration/weak/verifier/isotonic/synthetic-questions", "--dir", out).stdout
    for expected in (
        "brier_corrected",
        "rollout",
        "success",
        "seed",
        "content",
        "Trajectory 0 of",
        "\\boxed{",
    ):
        assert expected in shown
    unknown = prmcal("show", "calibration/weak/verifier/isotonik/synthetic-questions", "--dir", out)
    assert unknown.returncode == 2
    assert "'calibration/weak/verifier/isotonic/synthetic-questions'" in unknown.stderr


def test_a_limit_runs_the_first_questions_only(prmcal: Prmcal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = prmcal(*run_arguments(grid(tmp_path, calibrators=["uncalibrated"]), out), "--limit", 5)
    assert done.returncode == 0, done.stderr
    rows = json.loads(prmcal("leaderboard", out, "--table", "scaling", "--format", "json").stdout)
    assert {row["questions"] for row in rows} == {5}


def test_an_output_folder_that_cannot_be_made(prmcal: Prmcal, tmp_path: Path) -> None:
    refused = prmcal(*run_arguments(grid(tmp_path), Path("/proc/prmcal/out")))
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("prmcal: error: /proc/prmcal/out cannot be written")
    assert "Traceback" not in refused.stderr


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


@pytest.mark.parametrize("layout", [0, 99])
def test_a_database_of_another_version_is_left_alone(
    prmcal: Prmcal, tmp_path: Path, finished: tuple[Path, Path], layout: int
) -> None:
    import duckdb

    path, whole = finished
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    for name in ("results.duckdb", "leaderboard.duckdb"):
        with duckdb.connect(str(out / name)) as connection:
            connection.execute(f"UPDATE schema_version SET version = {layout}")
    content = (out / "results.duckdb").read_bytes()
    for arguments in (run_arguments(path, out), ["leaderboard", out]):
        refused = prmcal(*arguments)
        assert refused.returncode == 2
        assert ("newer" if layout else "older") in refused.stderr
    assert (out / "results.duckdb").read_bytes() == content
