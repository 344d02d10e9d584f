"""Storage and board: bulk loads, a large leaderboard, many shards, the placement of models, and the audit of a file."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import sqlalchemy as sa

from benchmarks.measuring import Figure, measured, version
from benchmarks.placement import eight_gpus
from benchmarks.simulations.audit_coverage import DISTORTIONS, SOLUTIONS, drawn
from prmcal.arrays import Floats
from prmcal.db import catalog
from prmcal.db.metrics import MAIN_METRICS
from prmcal.db.reader import engine_for, frame, reading
from prmcal.db.run_folder import database_path
from prmcal.db.tables import Cell, DescribedMetric, Result, Reward
from prmcal.db.writer import Writer
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.harness.planning.saved import existing_plan, write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Manifest
from prmcal.registry.plugins import load_plugin_file

PLUGINS = Path(__file__).parents[1] / "tests" / "plugins" / "synthetic.py"
_INSERTED = 500
_PREFIXES, _CALIBRATORS, _METRICS, _APART = 8, 15, MAIN_METRICS["calibration"], 0.3
_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss, done.stdout]))
"""
"""A small process that runs a command. A child of a large one would count the memory that it shares at first."""
_STEP = "We add both sides, and so the number of apples is {}, which the next step needs again."


def bulk_load(tiny: bool) -> Figure:
    """Load rewards from Parquet, against inserts of a part of the rows with SQLAlchemy."""
    rows, parts = (2_000, 10) if tiny else (1_000_000, 50)
    logit, index = np.random.default_rng(0).normal(size=rows).astype(np.float32), np.arange(rows)
    table = pa.table(
        {
            "question_id": np.char.mod("q%06d", index // (64 * _PREFIXES)),
            "trajectory": (index // _PREFIXES % 64).astype(np.int32),
            "step": (index % _PREFIXES).astype(np.int32),
            "logit": logit,
            "reward": 1 / (1 + np.exp(-logit.astype(np.float64))),
            "over_long": np.zeros(rows, dtype=bool),
        }
    )
    part = table.slice(0, rows // parts)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rewards.parquet"
        parquet.write_table(table, path)
        bulk, rowwise = (Writer(database_path(Path(name) / way), reads=Path(name)) for way in ("bulk", "rowwise"))

        def load() -> None:
            with bulk.transaction() as transaction:
                transaction.load("rewards", {"job": [path]})

        def insert() -> None:
            columns, rows_of = ["job_key", *part.column_names], [("job", *row.values()) for row in part.to_pylist()]
            row_of_marks = f"({', '.join('?' * len(columns))})"
            with engine_for(rowwise.path).begin() as connection:
                for start in range(0, len(rows_of), _INSERTED):
                    chunk = rows_of[start : start + _INSERTED]
                    statement = f"INSERT INTO rewards ({', '.join(columns)}) VALUES "
                    marks = ", ".join([row_of_marks] * len(chunk))
                    connection.exec_driver_sql(statement + marks, tuple(itertools.chain.from_iterable(chunk)))

        (seconds, _), (peer_seconds, _) = measured(load), measured(insert)
        query = sa.select(Reward).order_by(Reward.question_id, Reward.trajectory, Reward.step)
        stored, inserted = frame(bulk.path, query), frame(rowwise.path, query)
    assert len(stored) == rows and stored[: len(inserted)].equals(inserted), "all rows are stored, and equal"
    return Figure(
        f"a bulk load of {rows:,} rewards",
        seconds,
        f"{version('SQLAlchemy')}, {_INSERTED} rows a statement, for a {parts}th of them, times {parts}",
        peer_seconds * parts,
        f"{rows / seconds:,.0f} rows a second",
    )


def generated_board(folder: Path, values: Floats) -> Path:
    """Publish a calibration leaderboard with values of shape (LLMs, calibrators, metrics), and return its path.

    Of two calibrators of an LLM, the values differ significantly if they are .3 apart.
    """
    llms, calibrators, _ = values.shape
    here = {"prm": "prm", "dataset": "math", "leaderboard": "calibration", "status": "done"}
    cells = [
        Cell(cell_id=f"cell {llm:05} {number:02}", llm=f"llm {llm:05}", calibrator=f"calibrator {number:02}", **here)
        for llm, number in itertools.product(range(llms), range(calibrators))
    ]
    ids = np.array([cell.cell_id for cell in cells]).reshape(llms, calibrators)
    described = [metric for metric in built_in_metrics() if metric.name in _METRICS]
    first, second = np.triu_indices(calibrators, 1)
    writer, results = Writer(database_path(folder)), []
    comparisons: list[dict[str, Any]] = []
    for place, metric in enumerate(_METRICS):
        of_metric = values[:, :, place]
        difference = (of_metric[:, first] - of_metric[:, second]).ravel()
        pairs = {"cell_a": ids[:, first].ravel(), "cell_b": ids[:, second].ravel(), "difference": difference}
        p_values = np.where(np.abs(difference) < _APART, 0.5, 0.001)
        constant = {"leaderboard": "calibration", "metric": metric, "questions": 500}
        ends = {"low": difference - 0.1, "high": difference + 0.1, "p_value": p_values, "p_adjusted": p_values}
        comparisons.append({**pairs, **{name: [value] * len(difference) for name, value in constant.items()}, **ends})
        ends = {"low": of_metric.ravel() - 0.05, "high": of_metric.ravel() + 0.05}
        columns = {"cell_id": ids.ravel(), "metric": metric, "value": of_metric.ravel(), **ends}
        results.append(pd.DataFrame({**columns, "rows": 1000, "questions": 500}))
    with writer.transaction() as transaction:
        rows = [DescribedMetric(**asdict(metric), position=place) for place, metric in enumerate(described)]
        transaction.record([*cells, *rows])
        transaction.replace_comparisons(comparisons)
    with engine_for(writer.path).begin() as connection:
        connection.connection.register("generated", pd.concat(results))
        columns_of = ", ".join(results[0].columns)
        connection.exec_driver_sql(f"INSERT INTO results ({columns_of}) SELECT {columns_of} FROM generated")
    with writer.transaction(publish=True):
        pass
    return writer.published


def board(tiny: bool) -> Figure:
    """Read a leaderboard of many cells with its standings, against a query for each of some cells."""
    llms, parts = (4, 6) if tiny else (1334, 60)
    values = np.random.default_rng(0).random((llms, _CALIBRATORS, len(_METRICS)))
    with tempfile.TemporaryDirectory() as name:
        path = generated_board(Path(name), values)
        seconds, table = measured(lambda: catalog.leaderboard(path))
        some = table["cell_id"].iloc[: len(table) // parts]

        def one_by_one() -> list[float]:
            query = sa.select(Result.metric, Result.value, Result.low, Result.high)
            with reading(path) as connection:
                frames = [frame(connection, query.where(Result.cell_id == cell)) for cell in some]
            return [row["value"] for rows in frames for _, row in rows.set_index("metric").loc[[*_METRICS]].iterrows()]

        peer_seconds, expected = measured(one_by_one)
    assert np.array_equal(table[[*_METRICS]].to_numpy().ravel()[: len(expected)], expected), "the values are equal"
    lowest = values[:, :, 0].min(axis=1)
    best = table[table[f"{_METRICS[0]}_standing"] == "best"].sort_values("llm")[_METRICS[0]]
    assert len(table) == values[:, :, 0].size and np.array_equal(best, lowest), "the lowest values are the best"
    return Figure(
        f"the calibration table of {len(table):,} cells with standings",
        seconds,
        f"a query for each of a {parts}th of the cells, times {parts}, without standings",
        peer_seconds * parts,
    )


def many_shards(tiny: bool) -> Figure:
    """Plan a grid, hand out its shards to 256 workers, record them and find them again."""
    load_plugin_file(PLUGINS)
    shards = 66 if tiny else 20_000
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        peer_seconds, _ = measured(lambda: coordinated(Path(small), shards // 10))
        seconds, (planned, found) = measured(lambda: coordinated(Path(large), shards))
    assert planned == found, "all shards are found again"
    return Figure(
        f"to plan, hand out, record and find again {planned:,} shards",
        seconds,
        "a tenth of the shards, times 10",
        peer_seconds * 10,
        f"{1e6 * seconds / planned:.0f} microseconds for a shard",
    )


def coordinated(folder: Path, shards: int) -> tuple[int, int]:
    """Do the work of the coordinator for a grid of about so many shards. Return how many it planned, and found again.

    The grid has 3 LLMs and 2 PRMs without models, and one question in each shard.
    """

    def plugin(kind: str, skill: float) -> dict[str, Any]:
        return {"name": f"{kind}-{skill:g}", "plugin": f"synthetic-{kind}", "arguments": {"skill": skill}}

    questions = {"plugin": "synthetic-questions", "questions": max(1, shards // 33)}
    grid = {
        "name": "many",
        "llms": [plugin("llm", skill) for skill in (0.7, 0.8, 0.95)],
        "prms": [plugin("prm", skill) for skill in (0.8, 0.95)],
        "calibrators": ["uncalibrated", "temperature", "isotonic"],
        "calibration": {"name": "calibration", **questions, "trajectories": 4, "follow_ups": 4},
        "datasets": [{"name": "test", **questions}],
        "measurement": {"measured": 4, "follow_ups": 4, "replicates": 200},
        "scaling": {"samples": 8, "targets": [0.99], "levels": [0.1]},
        "shards": {"questions": 1, "trajectories": 4},
    }
    spec = GridSpec.model_validate(grid)
    plan, run = build_plan(spec), RunFolder(folder)
    record = RunRecord(spec.model_dump(mode="json"), [str(PLUGINS)], "run", "2026-01-02T00:00:00+00:00")
    run.write_record(record)
    write_plan(folder, record.grid, plan)
    hand_out(plan, 256)
    recorder = Recorder(Writer(run.database, run.published), run, plan, run.store, record, {})
    with recorder.recording({}):
        for shard in plan.shards():
            run.store.write(shard.ref, lambda path: None, {"seconds": 1.0})
            recorder.note(ShardOutcome(shard.ref, Manifest({}, 1.0)))
        recorder.ending = "SIGTERM"  # Nothing is compared.
    return len(plan.shards()), len(run.store.manifests(shard.ref for shard in existing_plan(run).shards()))


def hand_out(plan: Plan, workers: int) -> None:
    """Work through a schedule. Each shard takes the workers equally long, and no time."""
    schedule, loaded = Schedule(plan, ()), [""] * workers
    idle, running = deque(range(workers)), deque[tuple[int, ShardOutcome]]()
    while not schedule.finished:
        while idle and (shard := schedule.take(loaded[idle[0]])):
            worker = idle.popleft()
            loaded[worker] = shard.resource or loaded[worker]
            running.append((worker, ShardOutcome(shard.ref, Manifest({}, 1.0))))
        worker, outcome = running.popleft()
        idle.append(worker)
        schedule.finish(outcome)


def write_scored(path: Path, prefixes: int) -> int:
    """Write a file with the steps, scores and outcomes of about so many prefixes, and return how many there are."""
    a_question = SOLUTIONS * 5  # a solution has 5 prefixes, on average
    rows = drawn(np.random.default_rng(0), DISTORTIONS[0], max(prefixes // a_question, 2))
    with path.open("w", encoding="utf-8") as file:
        for question, solutions in rows.groupby("question"):
            of_solutions = [of_solution for _, of_solution in solutions.groupby("solution")]
            record = {
                "question": f"How many apples are there in basket {question}?",
                "steps": [[_STEP.format(step) for step in range(len(rows) - 1)] for rows in of_solutions],
                "scores": [rows["reward"].round(6).tolist() for rows in of_solutions],
                "pred": [str(int(rows["label"].iloc[0]) * (1 + place)) for place, rows in enumerate(of_solutions)],
                "correct": [bool(rows["label"].iloc[0]) for rows in of_solutions],
            }
            file.write(json.dumps(record) + "\n")
    return len(rows)


def audited(prefixes: int) -> tuple[str, float, float]:
    """Audit a file of about so many prefixes. Return what was audited, the CPU seconds and the gigabytes."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "scored.jsonl"
        written, megabytes = write_scored(path, prefixes), path.stat().st_size / 1e6
        command = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "prmcal", "audit", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, kilobytes, answer = json.loads(done.stdout)
    assert f"{written:,} scored prefixes" in " ".join(answer.split()), "it audits all prefixes"
    return f"{written:,} scored prefixes ({megabytes:.0f} MB)", seconds, kilobytes * 1024 / 1e9


def audit(tiny: bool) -> Figure:
    """Audit a large file in a process of its own, so that its memory is that of the whole command."""
    what, seconds, gigabytes = audited(1_000 if tiny else 1_000_000)
    remark = f"{gigabytes:.1f} GB of memory"
    if not tiny:
        less, fewer_seconds, fewer_gigabytes = audited(10_000)
        remark += f"; {fewer_seconds:.0f} seconds and {fewer_gigabytes:.1f} GB for {less}"
    return Figure(f"`prmcal audit` of a file with {what}", seconds, remark=remark)


BENCHMARKS = (bulk_load, board, many_shards, eight_gpus, audit)
