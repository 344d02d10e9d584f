"""``prmcal import-first-pass``: a recording made from published solutions and their rewards.

The code of the paper's authors writes first passes as lists of objects with the fields question, gold_answer and
generations. The rewards are in an array beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from prmcal.errors import DataError, StorageError
from prmcal.registry.datasets.records import read_records
from prmcal.registry.reading import reading

__all__ = ["import_first_pass"]

_LEAST_REWARD = 1e-7  # Half precision rounds some rewards to 0 or 1, which have no logit.


def import_first_pass(files: Sequence[Path], out: Path, rewards: Path | None = None) -> int:
    """Make a recording from published first passes: the LLM, the PRM and the data set of a grid can replay it.

    Parameters
    ----------
    files : sequence of Path
        JSON lists, JSON lines or Parquet. Records have the fields `question`, `gold_answer` and `generations`, and the
        same order as the rewards.
    out : Path
        The recording: JSON lines with `question`, `answer`, `solutions` and, if there are rewards, `logits`. Its format
        is described in `prmcal.registry.recordings`.
    rewards : Path, optional
        A .npy file with rewards in [0, 1], of shape (questions, samples).

    Returns
    -------
    int
        Number of questions.

    Raises
    ------
    DataError
        If a file cannot be read, a record has other fields, or the rewards have another shape or range.
    StorageError
        If `out` cannot be written.
    """
    records = [record for file in files for record in _first_passes(file)]
    logits = (
        _logits(rewards, [len(record["solutions"]) for record in records]) if rewards is not None else None
    )
    for number, record in enumerate(records):
        if logits is not None:
            record["logits"] = logits[number]
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    try:
        out.write_text(lines, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"The recording {out} cannot be written: {error.strerror or error}.") from error
    return len(records)


def _first_passes(file: Path) -> Iterator[dict[str, Any]]:
    for place, record in read_records(file):
        fields = record if isinstance(record, dict) else {}
        question, answer, texts = (fields.get(name) for name in ("question", "gold_answer", "generations"))
        whole = isinstance(texts, list) and bool(texts) and all(isinstance(text, str) for text in texts)
        if not isinstance(question, str) or not isinstance(answer, str | int) or not whole:
            raise DataError(
                f"{file}, {place}: a first pass has the fields 'question', 'gold_answer' and 'generations' (a list)."
            )
        yield {"question": question, "answer": str(answer), "solutions": texts}


def _logits(file: Path, samples: Sequence[int]) -> list[list[float]]:
    with reading(f"The rewards {file} cannot be read as a .npy file"), file.open("rb") as opened:
        rewards = np.load(opened, allow_pickle=False)
    if not isinstance(rewards, np.ndarray):
        raise DataError(f"The rewards {file} must be one array, a .npy file. Got several, a .npz file.")
    expected = (len(samples), samples[0] if len(set(samples)) == 1 else -1)
    if rewards.shape != expected or not np.issubdtype(rewards.dtype, np.floating):
        raise DataError(
            f"The rewards {file} must be numbers of shape (questions, samples), here ({len(samples)}, "
            f"{', '.join(map(str, sorted(set(samples))))}). Got {rewards.dtype} of shape {rewards.shape}."
        )
    if not bool(((rewards >= 0) & (rewards <= 1)).all()):
        raise DataError(f"The rewards {file} must be in [0, 1]. Got {rewards.min():g} to {rewards.max():g}.")
    clipped = np.clip(rewards.astype(np.float64), _LEAST_REWARD, 1 - _LEAST_REWARD)
    found: list[list[float]] = logit(clipped).tolist()
    return found
