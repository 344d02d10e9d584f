"""Results for the Hugging Face hub: ``.eval_results`` of each PRM, and ``eval.yaml`` of the benchmark.

The hub takes one number for each task of a benchmark. An entry is the Brier score of a PRM on one data set with one
LLM; its interval and its numbers of questions and prefixes are in the notes. Each calibrator has a file of its own,
since the hub asks for a file for each way of measuring.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.text.board import estimate
from prmcal.db.text.provenance import verified_text
from prmcal.errors import PrmcalError
from prmcal.harness.site.finished_cells import HUB_NAME, FinishedCell, FinishedCells, MeasuredValue
from prmcal.harness.storage.written_folder import write_text
from prmcal.registry.messages import excerpt

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def check_benchmark(benchmark: str | None) -> str:
    """Return the name of the benchmark's repository on the hub.

    Raises
    ------
    PrmcalError
        If it is missing, or is not of the form ``ORG/NAME``.
    """
    hint = "Give the hub's data set repository of this leaderboard as --benchmark ORG/NAME."
    if benchmark is None:
        raise PrmcalError(f"--hub needs --benchmark. {hint}")
    if not HUB_NAME.fullmatch(benchmark):
        raise PrmcalError(f"--benchmark: {excerpt(benchmark)!r} is no name of a repository. {hint}")
    return benchmark


def write_hub_results(board: FinishedCells, benchmark: str, folder: Path) -> None:
    """Write the results of all PRMs whose rows are current.

    Parameters
    ----------
    board : FinishedCells
    benchmark : str
        The hub's data set repository of the benchmark, ``ORG/NAME``.
    folder : Path
        An existing folder. The files of a PRM are written to ``DEVELOPER/MODEL/.eval_results`` in it, and the
        description of the benchmark to ``benchmark/eval.yaml``.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    files: dict[Path, list[EvalResultEntry]] = defaultdict(list)
    tasks: dict[str, str] = {}
    for cell in board.cells:
        value = next((each for each in cell.values if each.metric.name == RANKING_METRIC), None)
        if cell.leaderboard != "calibration" or value is None or "outdated" in cell.provenance:
            continue
        where = cell.coordinates
        task = _plain(f"{where['dataset']}-{where['llm']}")
        tasks[task] = where["dataset"]
        model = board.model(cell)
        name = f"prmcal-{_plain(where['calibrator'])}.yaml"
        entry = EvalResultEntry(
            dataset_id=benchmark,
            task_id=task,
            value=round(value.value, 6),
            date=f"{cell.measured_at:%Y-%m-%d}",
            notes=_notes(board, cell, value),
        )
        files[Path(_plain(model.developer), _plain(model.name), ".eval_results", name)].append(entry)
    for file, entries in files.items():
        _write(folder / file, eval_result_entries_to_yaml(entries))
    about = {
        "name": "Calibration of process reward models",
        "description": "Brier score of the rewards of prefixes, against Monte Carlo success rates, corrected for their "
        "noise. Lower is better. A task is a data set and the LLM whose solutions are scored.",
        "evaluation_framework": "prmcal",
        "tasks": [
            {"id": task, "config": dataset, "split": "test"} for task, dataset in sorted(tasks.items())
        ],
    }
    _write(folder / "benchmark" / "eval.yaml", about)


def _notes(board: FinishedCells, cell: FinishedCell, value: MeasuredValue) -> str:
    where = cell.coordinates
    plain = where["calibrator"] in board.baselines
    rewards = "uncalibrated rewards" if plain else f"rewards calibrated by {where['calibrator']}"
    parts = [
        f"{value.metric.title} {estimate(value.metric.name, value.value, value.low, value.high)} (95% interval over "
        f"{value.questions:,} questions, {value.rows:,} prefixes)",
        rewards,
        f"solutions of {where['llm']} on {where['dataset']}",
    ]
    if cell.provenance:
        told = cell.provenance
        parts.append(
            verified_text(
                told.get("tier"),
                told.get("verified_by"),
                told.get("verified_at"),
                int(told.get("failed_verifications", 0)),
            )
        )
    return "; ".join(parts)


def _plain(name: str) -> str:
    return _NOT_PLAIN.sub("-", name).strip("-.") or "unknown"


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))
