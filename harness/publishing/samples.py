"""The graded texts behind a record of Every Eval Ever, a line for each: samples of pass@1, and answers of searches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prmcal.db.queries.trajectories import graded_texts
from prmcal.db.text.readable import missing
from prmcal.harness.publishing.measurements import Board, Measurement

__all__ = ["sample_lines"]

_PASS_AT_1 = "pass@1"
_SCORE = "accuracy"


def sample_lines(
    board: Board, measurement: Measurement, published: Path, record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a line for each text whose grades are averaged to the accuracy of a cell.

    These are the samples of pass@1 and the answers of searches. Other strategies have exact expected values and no
    texts of their own. Texts that a submission leaves out have no lines.

    Parameters
    ----------
    board : Board
    measurement : Measurement
    published : Path
        The published copy of the database.
    record : mapping
        The record of the cell.
    """
    result_id = f"{measurement.cell_id}/{_SCORE}"
    if result_id not in {each["evaluation_result_id"] for each in record["evaluation_results"]}:
        return []
    keys = _sources(board, measurement)
    if not keys:
        return []
    grader = board.datasets.get(measurement.coordinates["dataset"], {}).get("grader_version", "unknown")
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


def _sources(board: Board, measurement: Measurement) -> list[str]:
    """Return the jobs with the texts that a cell averages over; none for other strategies."""
    strategy = board.plugins.get(("strategy", measurement.coordinates.get("strategy", "")), {}).get("plugin")
    direct = {key: board.jobs[key] for key in measurement.inputs if key in board.jobs}
    if board.jobs[measurement.job_key]["kind"] == "search_results":
        return sorted(key for key, job in direct.items() if job["kind"] == "search")
    if strategy == _PASS_AT_1 and measurement.leaderboard == "scaling":
        return sorted(
            key for key, job in direct.items() if job["kind"] == "rollout" and job["split"] == "test"
        )
    return []
