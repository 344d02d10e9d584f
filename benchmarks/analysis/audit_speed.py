"""Seconds and memory of `prmcal audit` on files with 10,000 and a million scored prefixes, on at most two cores.

    python -m benchmarks.analysis.audit_speed [--table docs/nano/audit-speed.csv] [PREFIXES...]

A file has a record for each question, with four solutions of two to six steps, their texts, scores, answers and
outcomes. The audit is a process of its own, so that its memory is that of the whole command. With a table, the text of
`docs/how-to/audit.md` comes from it: run `python -m benchmarks.documents` then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.statistics.audit_coverage import DISTORTIONS, SOLUTIONS, drawn

SIZES = (10_000, 1_000_000)
_CORES = 2
_STEP = "We add both sides, and so the number of apples is {}, which the next step needs again."


def write_file(path: Path, prefixes: int) -> int:
    """Write a file with about so many scored prefixes, and return how many there are."""
    a_question = SOLUTIONS * 5  # a solution has 5 prefixes, on average
    rows = drawn(np.random.default_rng(0), DISTORTIONS[0], max(prefixes // a_question, 2))
    scores, labels = rows["reward"].round(6).to_numpy(), rows["label"].to_numpy()
    starts = np.flatnonzero((rows["step"] == 0).to_numpy())
    ends = np.append(starts[1:], len(rows))
    solutions = list(zip(starts, ends, strict=True))
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, len(solutions), SOLUTIONS):
            of_question = solutions[first : first + SOLUTIONS]
            record = {
                "question": f"How many apples are there in basket {first}?",
                "steps": [[_STEP.format(step) for step in range(end - start - 1)] for start, end in of_question],
                "scores": [scores[start:end].tolist() for start, end in of_question],
                "pred": [str(int(labels[start]) * (1 + start % 3)) for start, _ in of_question],
                "correct": [bool(labels[start]) for start, _ in of_question],
            }
            file.write(json.dumps(record) + "\n")
    return len(rows)


def measured(path: Path, out: Path) -> dict[str, float]:
    """Audit a file in a process of its own, and return its seconds and its gigabytes."""
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
        os.execv(sys.executable, [sys.executable, "-m", "prmcal", "audit", str(path)])
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"The audit of {path} failed.")
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "gigabytes": round(usage.ru_maxrss * 1024 / 1e9, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefixes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    rows = []
    for size in options.prefixes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scored.jsonl"
            row = {"prefixes": write_file(path, size), "megabytes_of_file": round(path.stat().st_size / 1e6, 1)}
            rows.append({**row, **measured(path, Path(folder) / "printed")})
        print(rows[-1], flush=True)
    if options.table:
        pd.DataFrame(rows).to_csv(options.table, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
