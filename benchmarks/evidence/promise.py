"""Compare what new questions get with what the leaderboard promised, and measure how fast they are answered.

    python -m benchmarks.evidence.promise runs/nano [QUESTIONS]

It answers questions of nano-math that the run did not use, 200 by default, with several cells of the leaderboard. It
compares accuracy and mean samples with what the cells say, and the stated probabilities with what was right. It asks
the run's own questions again with one of the cells, which shows how much the questions make of a difference. Then it
answers 40 of the new ones together and one after the other. The table is kept in ``docs/nano/promise.csv``, which the
documentation quotes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import prmcal
from benchmarks.documents.figures import FIGURES
from prmcal import CalibratedPRM, Question, Solution
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.registry.grading import grade_answer
from prmcal.registry.plugins import datasets

PROMISE = FIGURES / "promise.csv"
"""What the last measurement found."""

_CELLS = (
    ("posterior vote", None),
    ("first good enough", None),
    ("sequential IAS", "beta-binomial"),
    ("best-of-n + IAS", "quantile-lora"),
)
_LLMS = ("nano-weak", "nano-middle", "nano-strong")
_FIRST, _TIMED = 100, 40
_AGAIN = "first good enough"
"""The strategy with which the run's own questions are asked again. It has no setting."""


def of_the_run() -> list[Question]:
    """Return the questions of the test split that the grid uses."""
    return datasets.create("nano-math").questions("test", _FIRST)


def unseen(count: int) -> list[Question]:
    """Return questions of the test split behind those that the grid uses."""
    return datasets.create("nano-math").questions("test", _FIRST + count)[_FIRST:]


def right(solutions: Sequence[Solution], questions: Sequence[Question]) -> NDArray[np.bool_]:
    """Return which answers are right."""
    grading = datasets.create("nano-math").grading
    return np.array(
        [
            each.answer is not None and grade_answer(each.answer, question.answer, grading) == "correct"
            for each, question in zip(solutions, questions, strict=True)
        ]
    )


def compared(folder: Path, count: int) -> pd.DataFrame:
    """Return one row for each cell: what it promised, and what new questions got."""
    board = prmcal.open_run(folder).leaderboard("scaling", dataset="nano-math", prm="nano-prm")
    questions = unseen(count)
    rows = []
    for llm in _LLMS:
        for strategy, calibrator in _CELLS:
            chosen = board[(board["llm"] == llm) & (board["strategy"] == strategy)]
            if calibrator is not None:
                chosen = chosen[chosen["calibrator"] == calibrator]
            row = chosen.iloc[0]
            how: dict[str, Any] = {"strategy": strategy}
            how |= {name: float(row[name]) for name in ("target", "level") if row[name] == row[name]}
            with prmcal.load(
                folder, llm=llm, prm="nano-prm", calibrator=calibrator or "quantile-lora"
            ) as prm:
                found = prm.solve_many([each.text for each in questions], **how)
            rows.append(_row(row, llm, strategy, found, right(found, questions), prm))
            print(pd.DataFrame(rows[-1:]).to_string(header=len(rows) == 1), flush=True)
    return pd.DataFrame(rows)


def _row(
    promised: Any,
    llm: str,
    strategy: str,
    found: Sequence[Solution],
    correct: NDArray[np.bool_],
    prm: CalibratedPRM,
) -> dict[str, Any]:
    samples = np.array([each.spent.samples for each in found], dtype=np.float64)
    stated = np.array([each.probability or 0.0 for each in found])
    accuracy_low, accuracy_high = map(float, bounded_interval(correct.astype(np.float64)))
    samples_low, samples_high = map(float, bounded_interval(samples, upper=float(prm.defaults.max_samples)))
    return {
        "llm": llm,
        "strategy": strategy,
        "calibrator": promised["calibrator"],
        "questions": len(found),
        "promised_accuracy": promised["accuracy"],
        "promised_accuracy_low": promised["accuracy_low"],
        "promised_accuracy_high": promised["accuracy_high"],
        "accuracy": float(correct.mean()),
        "accuracy_low": accuracy_low,
        "accuracy_high": accuracy_high,
        "promised_samples": promised["samples"],
        "promised_samples_low": promised["samples_low"],
        "promised_samples_high": promised["samples_high"],
        "samples": float(samples.mean()),
        "samples_low": samples_low,
        "samples_high": samples_high,
        "stated": float(stated.mean()),
        "stated_low": float(np.mean([each.low or 0.0 for each in found])),
        "stated_high": float(np.mean([each.high or 0.0 for each in found])),
        "unfamiliar": int(sum(not each.familiarity.familiar for each in found)),
    }


def difference(row: Any, quantity: str) -> tuple[float, float, float]:
    """Return what new questions got minus what the cell promised, with its 95% interval.

    The intervals of two independent estimates are combined by MOVER (Zou and Donner, 2008).

    Parameters
    ----------
    row : Series
        A row of the table.
    quantity : "accuracy" or "samples"
    """
    new, new_low, new_high = (row[f"{quantity}{end}"] for end in ("", "_low", "_high"))
    old, old_low, old_high = (row[f"promised_{quantity}{end}"] for end in ("", "_low", "_high"))
    value = new - old
    low = value - float(np.hypot(new - new_low, old_high - old))
    high = value + float(np.hypot(new_high - new, old - old_low))
    return float(value), low, high


def asked_again(folder: Path) -> pd.DataFrame:
    """Return a row for each LLM: what the run's own questions get with new samples, with `first good enough`.

    If they get what was promised, the other differences are those of the questions, and not of the way to the answer.
    """
    questions, rows = of_the_run(), []
    for llm in _LLMS:
        with prmcal.load(folder, llm=llm, prm="nano-prm", calibrator="quantile-lora") as prm:
            found = prm.solve_many([each.text for each in questions], strategy=_AGAIN)
        rows.append(
            {
                "llm": llm,
                "strategy": _AGAIN,
                "again": float(right(found, questions).mean()),
                "samples_again": float(np.mean([each.spent.samples for each in found])),
            }
        )
    return pd.DataFrame(rows)


def timed(folder: Path) -> float:
    """Return how many times faster questions are answered together than one after the other."""
    texts = [each.text for each in unseen(_TIMED)]
    with prmcal.load(folder, llm="nano-weak", prm="nano-prm", calibrator="quantile-lora") as prm:
        how: dict[str, Any] = {"strategy": "posterior vote", "target": 0.95}
        prm.solve_many(texts[:2], **how)
        start = time.perf_counter()
        together = prm.solve_many(texts, **how)
        middle = time.perf_counter()
        alone = [prm.solve(text, **how) for text in texts]
        end = time.perf_counter()
    same = sum(one.answer == other.answer for one, other in zip(together, alone, strict=True))
    ratio = (end - middle) / (middle - start)
    print(
        f"{_TIMED} questions together: {middle - start:.1f} s; one after the other: {end - middle:.1f} s; "
        f"{ratio:.1f} times as fast; {same} of {_TIMED} answers are equal"
    )
    return ratio


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    table = compared(folder, count).merge(asked_again(folder), on=["llm", "strategy"], how="left")
    table["times_as_fast"] = timed(folder)
    table.round(4).to_csv(PROMISE, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
