"""Records of the schema Every Eval Ever (evalevalai.com, version 0.3), a file for each finished cell.

A record has one model, and a cell has up to three plugins. Records of the calibration leaderboard are about the PRM,
and those of the scaling leaderboard and of the league are about the LLM. The others are additional details of the
model. Values that no direction makes better, such as samples, are details of the others.

Files are named by the key of the job that measured the cell, and times are those of the measurement. So a leaderboard
gives the same bytes whenever it is exported.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any
from uuid import UUID

from prmcal.db.metrics import Metric
from prmcal.db.queries.trajectories import graded_texts
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import missing
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.site.finished_cells import FinishedCell, FinishedCells, MeasuredValue
from prmcal.harness.storage.written_folder import write_text

SCHEMA_VERSION = "0.3.0"
COLLECTION = "prmcal"
"""The folder of the records below ``data``."""
_PASS_AT_1, _SCORE = "pass@1", "accuracy"
_UNIT = re.compile(
    r"(accuracy(_at_\d+)?|pass_at_n|wrong|area|brier|positive_brier|ece|adaptive_ce|average_ce|auroc_within|"
    r"coverage_[\d.]+)(_with_terminal)?"
)
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9._-]+")
_PORTS = {f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)}
_RESERVED = {"con", "prn", "aux", "nul", "data", *_PORTS}


def write_records(board: FinishedCells, published: Path, folder: Path) -> None:
    """Write the records of all finished cells, and the graded texts of those that have some.

    Parameters
    ----------
    board : FinishedCells
    published : Path
        The published copy of the database, for the texts.
    folder : Path
        An existing folder. Files are written to ``data/prmcal/DEVELOPER/MODEL/UUID.json`` in it, and texts to
        ``UUID_samples.jsonl`` beside them.
    """
    for cell in board.cells:
        if not any(value.scored for value in cell.values):
            continue
        model = board.model(cell)
        place = Path("data", COLLECTION, _portable(model.developer), _portable(model.name))
        record = _record(board, cell)
        (folder / place).mkdir(parents=True, exist_ok=True)
        lines = _sample_lines(board, cell, published, record)
        if lines:
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            samples = place / f"{_uuid(cell)}_samples.jsonl"
            write_text(folder / samples, text)
            record["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": samples.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(text.encode()).hexdigest(),
                "total_rows": len(lines),
            }
        text = json.dumps(record, indent=2, ensure_ascii=False)
        write_text(folder / place / f"{_uuid(cell)}.json", text + "\n")


def _uuid(cell: FinishedCell) -> UUID:
    """Return the name of a record: a UUID in the form of version 4, which depends on the cell and its key only."""
    text = f"{cell.cell_id} {cell.job_key}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _record(board: FinishedCells, cell: FinishedCell) -> dict[str, Any]:
    model, moment = board.model(cell), cell.measured_at.replace(tzinfo=UTC)
    timestamp = str(int(moment.timestamp()))
    others = {name: text for name, text in cell.coordinates.items() if name != cell.about}
    info: dict[str, Any] = {
        "name": model.name,
        "id": model.id,
        "developer": model.developer,
        "additional_details": {
            "deployment_type": "self_deployed" if model.engine else "unknown",
            "model_availability": "open_weights" if model.shipped else "unknown",
            **others,
        },
    }
    if model.engine:
        version = board.packages.get(model.engine)
        info["inference_engine"] = {"name": model.engine, **({"version": version} if version else {})}
    own = {"cell": cell.cell_id, "job_key": cell.job_key}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{COLLECTION}-{_uuid(cell)}/{model.id}/{timestamp}",
        "evaluation_timestamp": moment.isoformat(),
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_name": f"prmcal {LEADERBOARDS[cell.leaderboard].title.lower()} leaderboard",
            "source_type": "evaluation_run",
            "source_organization_name": cell.provenance.get("submitters", "unknown"),
            "evaluator_relationship": "other",
            "additional_details": {**cell.provenance, **own},
        },
        "eval_library": {"name": "prmcal", "version": board.prmcal_version},
        "model_info": info,
        "evaluation_results": [_result(board, cell, value) for value in cell.values if value.scored],
    }


def _result(board: FinishedCells, cell: FinishedCell, value: MeasuredValue) -> dict[str, Any]:
    dataset = cell.coordinates["dataset"]
    row = board.datasets.get(dataset, {})
    about = {name: str(row[name]) for name in ("content_hash", "grader_version", "questions") if name in row}
    costs = {
        other.metric.name: estimate(other.metric.name, other.value, other.low, other.high)
        for other in cell.values
        if not other.scored
    }
    result: dict[str, Any] = {
        "evaluation_result_id": f"{cell.cell_id}/{value.metric.name}",
        "evaluation_name": f"prmcal.{cell.leaderboard}.{dataset}",
        "source_data": {"dataset_name": dataset, "source_type": "other", "additional_details": about},
        "metric_config": _metric_config(value.metric, board),
        "score_details": {
            "score": value.value,
            "details": {"questions": str(value.questions), "rows": str(value.rows), **costs},
            "uncertainty": _uncertainty(board, cell, value),
        },
    }
    sampling = board.sampling(cell)
    names = ("temperature", "top_p", "top_k", "max_tokens")
    known = {name: sampling[name] for name in names if name in sampling}
    others = {name: json.dumps(each) for name, each in sampling.items() if name not in known}
    config = {"generation_args": known, "additional_details": others}
    config = {name: part for name, part in config.items() if part}
    return {**result, "generation_config": config} if config else result


def _metric_config(metric: Metric, board: FinishedCells) -> dict[str, Any]:
    arguments = board.plugins.get(("metric", metric.name), {}).get("arguments", {})
    plain = {name: each for name, each in arguments.items() if isinstance(each, (str, int, float, bool))}
    unit = _UNIT.fullmatch(metric.name)
    return {
        "metric_id": f"{COLLECTION}.{metric.name}",
        "metric_name": metric.title,
        "evaluation_description": metric.description,
        **({"metric_parameters": plain} if plain else {}),
        "lower_is_better": metric.better == "lower",
        "score_type": "continuous",
        "min_score": 0.0 if unit else "-Infinity",
        "max_score": 1.0 if unit else "Infinity",
    }


def _uncertainty(board: FinishedCells, cell: FinishedCell, value: MeasuredValue) -> dict[str, Any]:
    found: dict[str, Any] = {"num_samples": value.questions}
    if value.low is not None and value.high is not None:
        found["confidence_interval"] = {
            "lower": value.low,
            "upper": value.high,
            "confidence_level": 0.95,
            "method": "bootstrap over questions",
        }
        replicates = board.jobs[cell.job_key]["parameters"].get("bootstrap", {}).get("replicates")
        if replicates is not None:
            found["num_bootstrap_samples"] = replicates
    return found


def _sample_lines(
    board: FinishedCells, cell: FinishedCell, published: Path, record: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a line for each text whose grades are averaged to the accuracy of a cell.

    These are the samples of pass@1 and the answers of searches. Other strategies have exact expected values and no
    texts of their own. Texts that a submission leaves out have no lines.
    """
    result_id = f"{cell.cell_id}/{_SCORE}"
    keys = _jobs_with_texts(board, cell)
    if not keys or result_id not in {each["evaluation_result_id"] for each in record["evaluation_results"]}:
        return []
    grader = board.datasets.get(cell.coordinates["dataset"], {}).get("grader_version", "unknown")
    return [
        {
            "schema_version": record["schema_version"],
            "evaluation_id": record["evaluation_id"],
            "model_id": record["model_info"]["id"],
            "evaluation_name": record["evaluation_results"][0]["evaluation_name"],
            "evaluation_result_id": result_id,
            "sample_id": row["question_id"],
            "sample_hash": hashlib.sha256((row["question"] + row["reference"]).encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": row["question"], "reference": [row["reference"]]},
            "output": {"raw": [row["text"]]},
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": "" if missing(row["answer"]) else row["answer"],
                    "extraction_method": f"prmcal grader {grader}: {row['verdict']}",
                    "is_terminal": True,
                }
            ],
            "evaluation": {"score": float(row["correct"]), "is_correct": bool(row["correct"])},
            "metadata": {"trajectory": str(row["trajectory"])},
        }
        for row in graded_texts(published, keys).to_dict("records")
    ]


def _jobs_with_texts(board: FinishedCells, cell: FinishedCell) -> list[str]:
    """Return the jobs with the texts that a cell averages over; none for other strategies."""
    strategy = board.plugins.get(("strategy", cell.coordinates.get("strategy", "")), {}).get("plugin")
    behind = {key: board.jobs[key] for key in sorted(cell.inputs) if key in board.jobs}
    if board.jobs[cell.job_key]["kind"] == "search_results":
        return [key for key, job in behind.items() if job["kind"] == "search"]
    if strategy == _PASS_AT_1 and cell.leaderboard == "scaling":
        return [key for key, job in behind.items() if job["kind"] == "rollout" and job["split"] == "test"]
    return []


def _portable(name: str) -> str:
    """Return a name as the name of a folder on every system."""
    plain = _NOT_PORTABLE.sub("-", name).strip(".-") or "unknown"
    return f"{plain}-model" if plain.split(".")[0].lower() in _RESERVED else plain
