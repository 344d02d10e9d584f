"""Results for the Hugging Face hub: ``.eval_results`` of each PRM, and ``eval.yaml`` of the benchmark.

The hub takes one number for each task of a benchmark. An entry is the Brier score of a PRM on one data set with one
LLM; its interval and its numbers of questions and prefixes are in the notes. Each calibrator has a file of its own,
since the hub asks for a file for each way of measuring.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.text.board import estimate
from prmcal.db.text.provenance import verified_text
from prmcal.harness.site.finished_cells import FinishedCell, FinishedCells, Row, portable
from prmcal.harness.storage.written_folder import write_text


def write_hub_results(board: FinishedCells, folder: Path, benchmark: str) -> None:
    """Write the results of all PRMs whose rows are current.

    Parameters
    ----------
    board : FinishedCells
    folder : Path
        An existing folder. The files of a PRM are written to ``DEVELOPER/MODEL/.eval_results`` in it, and the
        description of the benchmark to ``benchmark/eval.yaml``.
    benchmark : str
        The hub's data set repository of the benchmark, ``ORG/NAME``.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    files: dict[Path, list[EvalResultEntry]] = defaultdict(list)
    tasks: dict[str, str] = {}
    for cell in board.cells:
        row = next((each for each in cell.values if each["metric"] == RANKING_METRIC), None)
        if cell.leaderboard != "calibration" or row is None or "outdated" in cell.provenance:
            continue
        where = cell.coordinates
        task = portable(f"{where['dataset']}-{where['llm']}")
        tasks[task] = where["dataset"]
        entry = EvalResultEntry(
            dataset_id=benchmark,
            task_id=task,
            value=round(row["value"], 6),
            date=f"{cell.measured_at:%Y-%m-%d}",
            notes=_notes(board, cell, row),
        )
        name = f"prmcal-{portable(where['calibrator'])}.yaml"
        files[board.model(cell).folder / ".eval_results" / name].append(entry)
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


def _notes(board: FinishedCells, cell: FinishedCell, row: Row) -> str:
    where, known = cell.coordinates, cell.provenance
    plain = where["calibrator"] in board.baselines
    value = estimate(row["metric"], row["value"], row["low"], row["high"])
    parts = [
        f"{board.metrics.title(row['metric'])} {value} (95% interval over {row['questions']:,.0f} questions, "
        f"{row['rows']:,.0f} prefixes)",
        "uncalibrated rewards" if plain else f"rewards calibrated by {where['calibrator']}",
        f"solutions of {where['llm']} on {where['dataset']}",
    ]
    if known:
        failed = int(known.get("failed_verifications", 0))
        parts.append(
            verified_text(known.get("tier"), known.get("verified_by"), known.get("verified_at"), failed)
        )
    return "; ".join(parts)


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))
