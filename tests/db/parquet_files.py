"""Files that a run's jobs leave: trajectories, prefixes, results and curves of a few questions."""

from __future__ import annotations

import itertools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

SCRIPT = "<script>alert('text')</script> **bold** $x$ \\boxed{7}"
QUESTIONS, POOL, STEPS = 4, 3, 2


def noise(*parts: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("/".join(map(str, parts)).encode()))


def write_parquet(path: Path, columns: dict[str, Any], types: dict[str, Any] | None = None) -> Path:
    arrays = {name: pa.array(values, (types or {}).get(name)) for name, values in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(arrays), path)
    return path


def trajectory_file(path: Path, questions: range = range(QUESTIONS)) -> Path:
    rows = list(itertools.product(questions, range(POOL)))
    right = [(question + index) % 2 == 0 for question, index in rows]
    return write_parquet(
        path,
        {
            "question_id": [f"q{question}" for question, _ in rows],
            "trajectory": [index for _, index in rows],
            "text": [SCRIPT if row == (0, 0) else f"Step of {row}\n\n\\boxed{{{row[1]}}}" for row in rows],
            "steps": [STEPS] * len(rows),
            "tokens": [20 + index for _, index in rows],
            "prompt_tokens": [40] * len(rows),
            "finish_reason": ["end"] * len(rows),
            "answer": [None if row == (1, 1) else str(row[1]) for row in rows],
            "verdict": ["correct" if each else "incorrect" for each in right],
            "correct": right,
        },
        {"trajectory": pa.int32(), "steps": pa.int32(), "tokens": pa.int32()},
    )


def prefix_file(path: Path, kind: str, calibrator: str = "") -> Path:
    rows = list(itertools.product(range(QUESTIONS), range(POOL), range(STEPS + 1)))
    random = noise(kind, calibrator)
    logit = random.normal(size=len(rows)).astype(np.float32)
    columns: dict[str, Any] = {
        "question_id": [f"q{row[0]}" for row in rows],
        "trajectory": [row[1] for row in rows],
        "step": [row[2] for row in rows],
    }
    if kind == "successes":
        columns |= {
            "successes": random.integers(0, 9, len(rows)),
            "follow_ups": [8] * len(rows),
            "terminal": [row[2] == STEPS for row in rows],
        }
    elif kind == "rewards":
        columns |= {"logit": logit, "reward": 1 / (1 + np.exp(-logit.astype(float))), "over_long": [False] * len(rows)}
    else:
        columns |= {"level": [0.5] * len(rows), "reward": random.uniform(size=len(rows))}
    return write_parquet(path, columns)


def results_file(path: Path, values: dict[str, float]) -> Path:
    levels = [None, 1, 2]
    rows = list(itertools.product(values, levels))
    return write_parquet(
        path,
        {
            "metric": [metric for metric, _ in rows],
            "question_level": [level for _, level in rows],
            "value": [values[metric] + (level or 0) / 100 for metric, level in rows],
            "low": [values[metric] - 0.0213 for metric, _ in rows],
            "high": [values[metric] + 0.0345 for metric, _ in rows],
            "rows": [1234 if level is None else 600 for _, level in rows],
            "questions": [100 if level is None else 50 for _, level in rows],
        },
        {"question_level": pa.int32()},
    )


def replicates_file(path: Path, values: dict[str, float], calibrator: str) -> None:
    drawn = {metric: value + noise(calibrator, metric).normal(0, 0.01, 200) for metric, value in values.items()}
    write_parquet(
        path,
        {
            "metric": [metric for metric, each in drawn.items() for _ in each],
            "resampled": ["the same questions"] * sum(map(len, drawn.values())),
            "replicate": [place for each in drawn.values() for place in range(len(each))],
            "value": np.concatenate(list(drawn.values())),
        },
    )


def bin_files(folder: Path, calibrator: str) -> dict[str, Path]:
    lower = np.arange(10) / 10
    shift = {"uncalibrated": 0.25, "temperature": 0.1, "isotonic": 0.02}[calibrator]
    mean = lower + 0.05
    success = np.clip(mean - shift * 4 * mean * (1 - mean), 0, 1)
    empty = np.arange(10) == 4
    reliability = write_parquet(
        folder / "reliability_bins.parquet",
        {
            "bin": range(10),
            "lower": lower,
            "upper": lower + 0.1,
            "count": np.where(empty, 0, np.arange(10) ** 2 * 11 + 37),
            "mean_reward": [None if gone else value for gone, value in zip(empty, mean, strict=True)],
            "mean_success": [None if gone else value for gone, value in zip(empty, success, strict=True)],
            "low": [None if gone else max(0, value - 0.06) for gone, value in zip(empty, success, strict=True)],
            "high": [None if gone else min(1, value + 0.07) for gone, value in zip(empty, success, strict=True)],
        },
    )
    edges = np.linspace(-1, 1, 21)
    counts = np.round(400 * np.exp(-(((edges[:-1] + 0.05 - shift) / 0.3) ** 2)))
    signed = write_parquet(
        folder / "signed_error_bins.parquet",
        {"bin": range(20), "lower": edges[:-1], "upper": edges[1:], "count": counts.astype(int)},
    )
    return {"reliability_bins": reliability, "signed_error_bins": signed}


def question_results_file(path: Path, means: dict[str, float]) -> Path:
    """Values of questions that differ, and that have the given mean for each metric."""
    apart = [(i - (QUESTIONS - 1) / 2) / (50 * QUESTIONS) for i in range(QUESTIONS)]
    return write_parquet(
        path,
        {
            "question_id": [f"q{i}" for i in range(QUESTIONS)] * len(means),
            "question_level": [i % 5 + 1 for i in range(QUESTIONS)] * len(means),
            "metric": [name for name in means for _ in range(QUESTIONS)],
            "value": [mean * (1 + each) for mean in means.values() for each in apart],
        },
    )


def sample_accuracies_file(path: Path) -> Path:
    rows = list(itertools.product(range(QUESTIONS), range(1, POOL + 1)))
    return write_parquet(
        path,
        {
            "question_id": [f"q{question}" for question, _ in rows],
            "question_level": [question % 5 + 1 for question, _ in rows],
            "samples": [n for _, n in rows],
            "accuracy": [(question + n) / (QUESTIONS + POOL) for question, n in rows],
        },
        {"question_level": pa.int32(), "samples": pa.int32()},
    )
