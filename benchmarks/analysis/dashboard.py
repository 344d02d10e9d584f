"""The time of each query of the dashboard's pages, on a database with 20 million calibrated rewards.

python -m benchmarks.analysis.dashboard [MILLIONS]

The database has the size of the paper's whole grid: 6 LLMs, 3 PRMs, 6 calibrators and 2 data sets. DuckDB generates the
rows, which are the same for each combination. Each query opens the file again, like the pages.
"""

from __future__ import annotations

import functools
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard, cell_id
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import database_path
from prmcal.db.tables import Cell, DatasetRow, JobInput, JobRow, PluginRow, QuestionRow, RunRow
from prmcal.db.tables.runs import Base
from prmcal.db.writer import Writer

LLMS = tuple(f"llm-{number}" for number in range(6))
PRMS = tuple(f"prm-{number}" for number in range(3))
CALIBRATORS = ("uncalibrated", "temperature", "isotonic", "histogram", "ats", "quantile-lora")
DATASETS = ("math500", "aime")
STRATEGIES = ("best-of-n + IAS", "fixed n of equal cost")
QUESTIONS, POOL, MEASURED = 500, 64, 8
LEVELS = (0.1, 0.5, 0.9)
BOOTSTRAP = {"replicates": 2000, "seed": 1}
TEXT = "Step: we add the two numbers and carry the remainder over to the next line.\\n\\n"
CELL = cell_id("calibration", LLMS[3], DATASETS[0], prm=PRMS[1], calibrator=CALIBRATORS[5])
RIVAL = cell_id("calibration", LLMS[3], DATASETS[0], prm=PRMS[1], calibrator=CALIBRATORS[0])
SETTING = {"dataset": DATASETS[0], "llm": LLMS[3], "prm": PRMS[1]}
TARGETS = tuple(float(-np.expm1(-x)) for x in np.geomspace(0.05, 16, 32))  # as many as in the curves of the page


def grid() -> Iterator[tuple[str, str, str, str]]:
    yield from itertools.product(LLMS, PRMS, CALIBRATORS, DATASETS)


def describe(writer: Writer) -> None:
    """Write the small tables, with the plan and the status of its jobs."""
    rows: list[Base] = [
        RunRow(
            run_id="run",
            grid_name="large",
            grid_key="k" * 24,
            grid="name: large\n",
            started_at=datetime(2026, 1, 2),
            status="done",
            prmcal_version="0",
            packages={},
            hardware={},
        )
    ]
    kinds = {"llm": LLMS, "prm": PRMS, "calibrator": CALIBRATORS, "dataset": DATASETS, "strategy": STRATEGIES}
    for kind, names in kinds.items():
        for place, name in enumerate(names):
            rows.append(PluginRow(kind=kind, name=name, plugin=name, arguments={}, identity={}, position=place))
    for dataset in DATASETS:
        rows.append(DatasetRow(name=dataset, split="test", content_hash="h", questions=QUESTIONS, grader_version="1"))
        rows += [
            QuestionRow(
                dataset=dataset,
                split="test",
                question_id=f"q{number:04}",
                text=f"What is {number} plus {number}? " * 5,
                answer=str(2 * number),
                level=str(number % 5 + 1),
                subject="sums",
            )
            for number in range(QUESTIONS)
        ]
    for llm, dataset in itertools.product(LLMS, DATASETS):
        rows += job("rollout", (llm, dataset), llm=llm, dataset=dataset)
        rows += job("success", (llm, dataset), ("rollout", llm, dataset), llm=llm, dataset=dataset)
        for prm in PRMS:
            here = {"llm": llm, "prm": prm, "dataset": dataset}
            rows += job("score", (llm, prm, dataset), ("rollout", llm, dataset), **here)
            rows += job("curves", (llm, prm, dataset), ("rollout", llm, dataset), **here)
    for llm, prm, calibrator, dataset in grid():
        rows += cells_of(llm, prm, calibrator, dataset)
    with writer.transaction() as transaction:
        transaction.record(rows)


def job(kind: str, names: tuple[str, ...], *inputs: tuple[str, ...], **columns: Any) -> list[Base]:
    key = "-".join((kind, *names))
    shards = [{"key": f"{key}-{number}", "seed": number} for number in range(16)]
    row = JobRow(
        job_key=key,
        kind=kind,
        split="test",
        parameters={"shards": shards, "bootstrap": BOOTSTRAP},
        status="done",
        shards=16,
        **columns,
    )
    return [row, *(JobInput(job_key=key, input_key="-".join(labels)) for labels in inputs)]


def cells_of(llm: str, prm: str, calibrator: str, dataset: str) -> list[Base]:
    here = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset}
    place = (llm, prm, calibrator, dataset)
    calibrated, success = ("calibrated", *place), ("success", llm, dataset)
    rows = job("calibrated", place, ("score", llm, prm, dataset), **here)
    rows += job("calibration_metrics", place, calibrated, success, **here)
    rows += job("curves", place, ("rollout", llm, dataset), calibrated, **here)

    def cell(board: Leaderboard, kind: str, **at: Any) -> Cell:
        name = cell_id(board, llm, dataset, prm=prm, calibrator=calibrator, **at)
        key = "-".join((kind, *place))
        return Cell(cell_id=name, leaderboard=board, job_key=key, status="done", **here, **at)

    rows.append(cell("calibration", "calibration_metrics"))
    for strategy in STRATEGIES:
        kind = f"strategy-{strategy}"
        rows += job(kind, place, ("rollout", llm, dataset), calibrated, **here)
        rows.append(cell("scaling", kind, strategy=strategy, target=0.99, level=0.1))
    return rows


def fill(path: Path, steps: int) -> None:
    """Write the large tables in the order of a run: one job after the other, with sorted rows."""
    with engine_for(path).begin() as connection:
        run = connection.exec_driver_sql
        run("SELECT setseed(0.5)")
        for name, size in (("pool", POOL), ("measured", MEASURED)):
            run(
                f"CREATE TEMP TABLE {name} AS SELECT printf('q%04d', q) AS question_id, t::INTEGER AS trajectory, "
                f"s::INTEGER AS step FROM range({QUESTIONS}) a(q), range({size}) b(t), range({steps + 1}) c(s) "
                "ORDER BY q, t, s"
            )
        for llm, dataset in itertools.product(LLMS, DATASETS):
            where = f"{llm}-{dataset}"
            run(
                f"INSERT INTO trajectories SELECT 'rollout-{where}', printf('q%04d', q), t, "
                f"repeat('{TEXT}', {steps}) || q, {steps}, 300, 100, 'end', q::VARCHAR, 'boxed', 'correct', "
                f"random() < 0.4 FROM range({QUESTIONS}) a(q), range({POOL}) b(t) ORDER BY q, t"
            )
            run(
                f"INSERT INTO successes SELECT 'success-{where}', *, floor(9 * random())::INTEGER, 8, step = {steps} "
                "FROM measured"
            )
            for prm in PRMS:
                run(
                    f"INSERT INTO rewards SELECT 'score-{llm}-{prm}-{dataset}', *, 0.0::REAL, random(), false FROM pool"
                )
                run(
                    f"INSERT INTO sample_accuracies SELECT 'curves-{llm}-{prm}-{dataset}', printf('q%04d', q), "
                    f"1 + q % 5, n, 1 - (1 - (q + 1) / {QUESTIONS + 2}) ^ n "
                    f"FROM range({QUESTIONS}) a(q), range(1, {POOL + 1}) b(n) ORDER BY q, n"
                )
        for llm, prm, calibrator, dataset in grid():
            run(
                f"INSERT INTO calibrated_rewards SELECT 'calibrated-{llm}-{prm}-{calibrator}-{dataset}', question_id, "
                f"trajectory, step, level, random() FROM measured, unnest({list(LEVELS)}) AS levels(level)"
            )
        values(run)


def values(run: Callable[[str], Any]) -> None:
    """Write the results of the cells: several metrics, overall and per question, and all comparisons."""
    metrics = {"calibration": ("brier", "ece", "signed_error"), "scaling": ("accuracy", "budget_ratio", "samples")}
    for board, names in metrics.items():
        listed = ", ".join(f"'{name}'" for name in names)
        run(
            "INSERT INTO results SELECT cell_id, metric, NULL, random(), 0.1, 0.9, 1000, 500 "
            f"FROM cells, unnest([{listed}]) AS m(metric) WHERE leaderboard = '{board}'"
        )
        run(
            "INSERT INTO comparisons SELECT a.leaderboard, metric, a.cell_id, b.cell_id, 0.1, 0.0, 0.2, 0.01, "
            f"random(), 500 FROM cells a JOIN cells b USING (leaderboard, llm, prm, dataset), "
            f"unnest([{listed}]) AS m(metric) WHERE leaderboard = '{board}' AND a.cell_id < b.cell_id"
        )
        run(
            "INSERT INTO question_results SELECT cell_id, printf('q%04d', q), 1 + q % 5, metric, random() "
            f"FROM cells, range({QUESTIONS}) a(q), unnest([{listed}]) AS m(metric) WHERE leaderboard = '{board}'"
        )
    run(
        "INSERT INTO reliability_bins SELECT cell_id, b, b / 10, (b + 1) / 10, 100, b / 10, b / 10, 0, 1 "
        "FROM cells, range(10) a(b) WHERE leaderboard = 'calibration'"
    )
    run(
        "INSERT INTO signed_error_bins SELECT cell_id, b, b / 10 - 1, b / 10 - 0.9, 100 "
        "FROM cells, range(20) a(b) WHERE leaderboard = 'calibration'"
    )


def questions() -> dict[str, Callable[[Path], Any]]:
    """Return the queries of the pages, by name."""
    return {
        "leaderboard: calibration": lambda path: catalog.leaderboard(path, "calibration"),
        "leaderboard: scaling": lambda path: catalog.leaderboard(path, "scaling"),
        "calibration: bins of a cell": lambda path: catalog.reliability(path, CELL),
        "calibration: provenance of a cell": lambda path: catalog.cell(path, CELL),
        "trajectories, compare and runs: cells": catalog.cells,
        "trajectories: solutions of a cell": lambda path: catalog.solutions(path, CELL),
        "trajectories: of a question": lambda path: catalog.trajectories(path, CELL, "q0250"),
        "trajectories: prefixes of a question": lambda path: catalog.prefixes(path, CELL, "q0250"),
        "scaling: the pool": lambda path: catalog.exact_curves(path, **SETTING),
        "scaling: sliders, by budget": lambda path: by_budget(pool(path)),
        "compare: rivals": lambda path: catalog.compare_cells(path, CELL, RIVAL),
        "runs: jobs": catalog.jobs,
        "runs: shards": catalog.planned_shards,
    }


@functools.cache
def pool(path: Path) -> ExactCurves:
    """Return the data that the page keeps while its sliders move."""
    curves = catalog.exact_curves(path, **SETTING)
    assert curves is not None
    return curves


def by_budget(pool: ExactCurves) -> None:
    """Compute the plots that depend on C and beta: a point and a curve per calibrator, and the curve of fixed n."""
    for calibrator in CALIBRATORS:
        pool.adaptive(calibrator, LEVELS[0], [0.99]).columns("samples")
        pool.adaptive(calibrator, LEVELS[0], TARGETS).columns("samples")
    pool.fixed([2**power for power in range(7)]).columns("samples")


def main() -> None:
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    pairings = len(list(grid()))
    steps = max(1, round(millions * 1e6 / (pairings * QUESTIONS * MEASURED * len(LEVELS))) - 1)
    with tempfile.TemporaryDirectory() as name:
        path = database_path(Path(name))
        begin = time.perf_counter()
        writer = Writer(path)
        describe(writer)
        fill(path, steps)
        with engine_for(path).connect() as connection:
            count = connection.exec_driver_sql("SELECT count(*) FROM calibrated_rewards").scalar_one()
        size = path.stat().st_size / 2**30
        print(f"{count:,} calibrated rewards, {size:.1f} GiB, generated in {time.perf_counter() - begin:.0f} s")
        for title, ask in questions().items():
            wall, busy = [], []
            for _ in range(3):
                begin, work = time.perf_counter(), time.process_time()
                ask(path)
                wall.append(time.perf_counter() - begin)
                busy.append(time.process_time() - work)
            print(
                f"{title:40} first {wall[0]:6.2f} s   then {min(wall[1:]):6.2f} s   CPU {min(busy):6.2f} s", flush=True
            )


if __name__ == "__main__":
    main()
