"""A small database with rows in all tables: two LLMs, three calibrators, two data sets, and one failed cell."""

from __future__ import annotations

import itertools
from datetime import datetime
from pathlib import Path
from typing import Any

from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import artifact_folder, database_path
from prmcal.db.tables import Base, Cell, Comparison, DatasetRow, JobInput, JobRow, PluginRow, QuestionRow, RunRow
from prmcal.db.writer import Writer
from tests.db.parquet_files import (
    QUESTIONS,
    bin_files,
    prefix_file,
    question_results_file,
    replicates_file,
    results_file,
    sample_accuracies_file,
    trajectory_file,
    write_parquet,
)
from tests.measured import described_rows
from tests.stored import record

LLMS = ("weak", "strong")
CALIBRATORS = ("uncalibrated", "temperature", "isotonic")
DATASETS = ("nano-math", "nano-aime")
STRATEGIES = ("pass@1", "best-of-n", "best-of-n + IAS", "oracle IAS", "beam search")
METRICS = (
    *("brier", "brier_corrected", "positive_brier", "ece", "adaptive_ce", "average_ce", "signed_error"),
    "adaptive_ce_corrected",
)
COMPARED = ("brier", "brier_corrected")
REASON = "The calibrator 'isotonic' raised ValueError: <script>alert('reason')</script> *not* a $number$"
FAILED_CELL = cell_id("calibration", "strong", "nano-aime", prm="qwen", calibrator="isotonic")
BOOTSTRAP = {"replicates": 200, "seed": 3}
_FILES = "files"


def metric_values(llm: str, calibrator: str, dataset: str) -> dict[str, float]:
    base = {"uncalibrated": 0.21, "temperature": 0.13, "isotonic": 0.125}[calibrator]
    base += 0.05 * (llm == "weak") + 0.08 * (dataset == "nano-aime")
    return {metric: round(base + place / 97, 4) for place, metric in enumerate(METRICS)}


def build(directory: Path, *, publish: bool = True) -> Writer:
    """Write the database as a run does: descriptions first, then one job after the other."""
    writer = Writer(database_path(directory))
    record(writer, _descriptions())
    for llm, dataset in itertools.product(LLMS, DATASETS):
        write_pool(writer, directory, llm, dataset)
        for calibrator in CALIBRATORS:
            write_calibration(writer, directory, llm, calibrator, dataset)
        _write_scaling(writer, directory, llm, dataset)
        _write_curves(writer, directory, llm, dataset)
        _write_search(writer, directory, llm, dataset)
        _write_league(writer, directory, llm, dataset)
    if publish:
        with writer.transaction(publish=True):
            pass
    return writer


def job(key: str, kind: str, *inputs: str, **columns: Any) -> list[Base]:
    defaults = {"status": "done", "parameters": {"temperature": 0.7}, "shards": 2, "split": "test"}
    row = JobRow(job_key=key, kind=kind, **{**defaults, **columns})
    return [row, *(JobInput(job_key=key, input_key=each) for each in inputs)]


def _descriptions() -> list[Base]:
    rows: list[Base] = [
        RunRow(
            run_id="run-1",
            grid_name="tiny",
            grid_key="k" * 24,
            grid="name: tiny\n",
            started_at=datetime(2026, 1, 2, 3, 4, 5),
            status="running",
            prmcal_version="0.1.0",
            packages={"torch": "2.13.0"},
            hardware={"cores": 2},
        )
    ]
    kinds = {"llm": LLMS, "prm": ("qwen",), "calibrator": CALIBRATORS, "dataset": DATASETS, "strategy": STRATEGIES}
    for kind, names in kinds.items():
        for position, name in enumerate(names):
            identity = {"version": "1", "weights": f"hash-of-{name}"}
            rows.append(
                PluginRow(kind=kind, name=name, plugin=name, arguments={}, identity=identity, position=position)
            )
    rows += described_rows()
    for name in DATASETS:
        rows.append(
            DatasetRow(name=name, split="test", content_hash=f"hash-{name}", questions=QUESTIONS, grader_version="1")
        )
        rows += [
            QuestionRow(
                dataset=name,
                split="test",
                question_id=f"q{i}",
                text=f"What is {i}?",
                answer=str(i),
                level=str(i % 5 + 1),
            )
            for i in range(QUESTIONS)
        ]
    return rows


def write_pool(writer: Writer, directory: Path, llm: str, dataset: str) -> None:
    here = {"llm": llm, "dataset": dataset}
    name = f"{llm}-{dataset}"
    halves = [range(0, QUESTIONS // 2), range(QUESTIONS // 2, QUESTIONS)]
    files = [trajectory_file(directory / _FILES / name / f"{half.start}.parquet", half) for half in halves]
    with writer.transaction() as transaction:
        transaction.record(job(f"rollout-{name}", "rollout", **here))
        transaction.record(job(f"graded-{name}", "graded", f"rollout-{name}", **here))
        transaction.record(job(f"success-{name}", "success", f"graded-{name}", **here))
        transaction.record(job(f"score-{name}", "score", f"rollout-{name}", prm="qwen", **here))
        transaction.load("trajectories", {f"graded-{name}": files})
        for kind, key in (("successes", "success"), ("rewards", "score")):
            path = prefix_file(directory / _FILES / name / f"{kind}.parquet", kind)
            transaction.load(kind, {f"{key}-{name}": [path]})


def write_calibration(writer: Writer, directory: Path, llm: str, calibrator: str, dataset: str) -> None:
    here = {"llm": llm, "dataset": dataset, "prm": "qwen", "calibrator": calibrator}
    pool, name = f"{llm}-{dataset}", f"{llm}-{calibrator}-{dataset}"
    cell = cell_id("calibration", llm, dataset, prm="qwen", calibrator=calibrator)
    failed = cell == FAILED_CELL
    status = {"status": "failed", "reason": REASON} if failed else {"status": "done"}
    with writer.transaction() as transaction:
        transaction.record(
            job(f"fit-{llm}-{calibrator}", "fit", **{**here, "dataset": "nano-math", "split": "calibration"})
        )
        transaction.record(job(f"calibrated-{name}", "calibrated", f"fit-{llm}-{calibrator}", f"score-{pool}", **here))
        measured_by = {"parameters": {"shards": [{"key": name}], "bootstrap": BOOTSTRAP}}
        inputs = (f"calibrated-{name}", f"success-{pool}")
        transaction.record(job(f"metrics-{name}", "calibration_metrics", *inputs, **here, **status, **measured_by))
        transaction.record([Cell(cell_id=cell, leaderboard="calibration", job_key=f"metrics-{name}", **here, **status)])
        if failed:
            return
        calibrated = prefix_file(
            directory / _FILES / name / "calibrated_rewards.parquet", "calibrated_rewards", calibrator
        )
        transaction.load("calibrated_rewards", {f"calibrated-{name}": [calibrated]})
        values = metric_values(llm, calibrator, dataset)
        artifact = artifact_folder(directory, "calibration_metrics", name)
        transaction.load("results", {cell: [results_file(artifact / "results.parquet", values)]})
        replicates_file(artifact / "replicates.parquet", values, calibrator)
        path = question_results_file(
            directory / _FILES / name / "question_results.parquet", {"brier_corrected": values["brier_corrected"]}
        )
        transaction.load("question_results", {cell: [path]})
        for table, path in bin_files(directory / _FILES / name, calibrator).items():
            transaction.load(table, {cell: [path]})
        if calibrator != CALIBRATORS[0]:
            transaction.record(
                [
                    _comparison(metric, cell, other, llm, calibrator, dataset)
                    for metric in COMPARED
                    for other in CALIBRATORS[:2]
                    if other != calibrator
                ]
            )


def _comparison(metric: str, cell: str, other: str, llm: str, calibrator: str, dataset: str) -> Comparison:
    rival = cell_id("calibration", llm, dataset, prm="qwen", calibrator=other)
    difference = metric_values(llm, calibrator, dataset)[metric] - metric_values(llm, other, dataset)[metric]
    real = other == "uncalibrated"
    return Comparison(
        leaderboard="calibration",
        metric=metric,
        cell_a=rival,
        cell_b=cell,
        difference=-difference,
        low=-difference - 0.01,
        high=-difference + 0.01,
        p_value=0.001 if real else 0.4,
        p_adjusted=0.002 if real else 0.4,
        questions=100,
    )


def _write_scaling(writer: Writer, directory: Path, llm: str, dataset: str) -> None:
    scaled: list[tuple[dict[str, Any], dict[str, float]]] = [
        ({"strategy": "pass@1"}, {"accuracy": 0.31, "samples": 1.0}),
        ({"strategy": "best-of-n", "prm": "qwen"}, {"accuracy": 0.62, "budget_ratio": 1.0, "samples": 64.0}),
    ]
    for place, calibrator in enumerate(CALIBRATORS):
        setting = {"prm": "qwen", "calibrator": calibrator, "target": 0.99, "level": 0.1}
        values = {"accuracy": 0.55 + place / 50, "budget_ratio": 0.3 + place / 10, "samples": 20.0, "pass_at_n": 0.71}
        scaled.append(({"strategy": "best-of-n + IAS", **setting}, values))
    # Both would beat all others if they competed.
    scaled.append(({"strategy": "oracle IAS", "prm": "qwen"}, {"accuracy": 0.93, "samples": 1.5}))
    scaled.append(({"strategy": "beam search", "prm": "qwen"}, {"accuracy": 0.97, "samples": 2.0}))
    with writer.transaction() as transaction:
        for where, values in scaled:
            cell = cell_id("scaling", llm, dataset, **where)
            key = f"measure-{cell}"
            measured_by = {"parameters": {"shards": [{"key": key}], "bootstrap": BOOTSTRAP}}
            searched = where["strategy"] == "beam search"
            kind, read = ("search_results", "search") if searched else ("strategy", "graded")
            inputs = (f"{read}-{llm}-{dataset}",)
            transaction.record(job(key, kind, *inputs, llm=llm, dataset=dataset, **measured_by))
            transaction.record(
                [
                    Cell(
                        cell_id=cell,
                        leaderboard="scaling",
                        llm=llm,
                        dataset=dataset,
                        job_key=key,
                        status="done",
                        **where,
                    )
                ]
            )
            folder = directory / _FILES / cell.replace("/", "_")
            transaction.load("results", {cell: [results_file(folder / "results.parquet", values)]})
            means = {name: values[name] for name in ("accuracy", "samples")}
            path = question_results_file(folder / "question_results.parquet", means)
            transaction.load("question_results", {cell: [path]})


def _write_search(writer: Writer, directory: Path, llm: str, dataset: str) -> None:
    key = f"search-{llm}-{dataset}"
    columns = {
        "question_id": [f"q{i}" for i in range(QUESTIONS)],
        "text": ["So it is\\n\\n\\\\boxed{4}"] * QUESTIONS,
        "steps": [2] * QUESTIONS,
        "reward": [0.8] * QUESTIONS,
        "answer": ["4"] * QUESTIONS,
        "verdict": ["correct"] * QUESTIONS,
        "correct": [True] * QUESTIONS,
        "finished": [3] * QUESTIONS,
        "any_correct": [True] * QUESTIONS,
        "rounds": [2] * QUESTIONS,
        "generations": [128] * QUESTIONS,
        "generated_tokens": [1200] * QUESTIONS,
        "prefill_tokens": [90] * QUESTIONS,
        "scored_tokens": [4000] * QUESTIONS,
    }
    with writer.transaction() as transaction:
        transaction.record(job(key, "graded_search", llm=llm, prm="qwen", dataset=dataset))
        path = write_parquet(directory / _FILES / key / "searches.parquet", columns)
        transaction.load("searches", {key: [path]})


def _write_curves(writer: Writer, directory: Path, llm: str, dataset: str) -> None:
    key = f"curves-{llm}-{dataset}"
    interval = {"low": [0.4, 0.6], "high": [0.6, 0.8]}
    tables: dict[str, dict[str, list[Any]]] = {
        "curve_points": {
            "level": [0.1, 0.1],
            "target": [0.5, 0.99],
            "point": [0, 1],
            "samples": [4.0, 20.0],
            "accuracy": [0.5, 0.7],
            "accuracy_low": interval["low"],
            "accuracy_high": interval["high"],
            "questions": [100, 100],
        }
    }
    here = {"llm": llm, "prm": "qwen", "calibrator": CALIBRATORS[0], "dataset": dataset}
    with writer.transaction() as transaction:
        inputs = (f"rollout-{llm}-{dataset}", f"calibrated-{llm}-{CALIBRATORS[0]}-{dataset}")
        transaction.record(job(key, "curves", *inputs, **here))
        for table, columns in tables.items():
            path = write_parquet(directory / _FILES / key / f"{table}.parquet", columns)
            transaction.load(table, {key: [path]})
        fixed = job(
            f"{key}-fixed", "curves", inputs[0], parameters={"bootstrap": BOOTSTRAP}, **here | {"calibrator": None}
        )
        transaction.record(fixed)
        path = sample_accuracies_file(directory / _FILES / key / "sample_accuracies.parquet")
        transaction.load("sample_accuracies", {f"{key}-fixed": [path]})


def _write_league(writer: Writer, directory: Path, llm: str, dataset: str) -> None:
    """Curves of a fixed n, of IAS with each calibrator, and of the oracle. Each ends a little higher than the last."""
    entries: list[dict[str, Any]] = [
        {"strategy": "best-of-n"},
        *({"strategy": "best-of-n + IAS", "calibrator": calibrator, "level": 0.1} for calibrator in CALIBRATORS),
        {"strategy": "oracle IAS"},
    ]
    cells = []
    with writer.transaction() as transaction:
        for place, where in enumerate(entries):
            cell = cell_id("league", llm, dataset, prm="qwen", **where)
            key = f"measure-{cell}"
            cells.append(cell)
            here = {"llm": llm, "prm": "qwen", "dataset": dataset}
            transaction.record(
                job(key, "league", f"score-{llm}-{dataset}", parameters={"bootstrap": BOOTSTRAP}, **here)
            )
            transaction.record([Cell(cell_id=cell, leaderboard="league", job_key=key, status="done", **here, **where)])
            gain = 0.02 * place
            values = {"area": 0.5 + gain, "area_gain": gain, "samples_to_95": 20.0 - place, "saving_95": gain}
            values |= {f"accuracy_at_{budget}": 0.4 + gain + budget / 200 for budget in (2, 4, 8, 16, 32, 64)}
            folder = directory / _FILES / cell.replace("/", "_")
            transaction.load("results", {cell: [results_file(folder / "results.parquet", values)]})
            means = {name: value for name, value in values.items() if name not in ("samples_to_95", "saving_95")}
            path = question_results_file(folder / "question_results.parquet", means)
            transaction.load("question_results", {cell: [path]})
            points = {
                "point": [0, 1, 2],
                "samples": [1.0, 8.0, 64.0],
                "samples_low": [1.0, 7.0, 60.0],
                "samples_high": [1.0, 9.0, 64.0],
                "accuracy": [0.31, 0.45 + gain, 0.6 + gain],
                "accuracy_low": [0.25, 0.4 + gain, 0.55 + gain],
                "accuracy_high": [0.37, 0.5 + gain, 0.65 + gain],
                "order_error": [0.0, 0.0, 0.0],
                "questions": [QUESTIONS, QUESTIONS, QUESTIONS],
            }
            path = write_parquet(folder / "league_points.parquet", points)
            transaction.load("league_points", {cell: [path]})
        transaction.record(
            [
                Comparison(
                    leaderboard="league",
                    metric="area",
                    cell_a=first,
                    cell_b=second,
                    difference=-0.02,
                    low=-0.03,
                    high=-0.01,
                    p_value=0.001,
                    p_adjusted=0.002,
                    questions=QUESTIONS,
                )
                for first, second in itertools.combinations(cells, 2)
            ]
        )
