"""What the documentation says of the promise of the leaderboard: what new questions got beside it."""

from __future__ import annotations

import pandas as pd

from benchmarks.documents.shown import markdown, measured, paragraph, with_interval
from benchmarks.evidence.promise import difference


def promised(table: pd.DataFrame) -> str:
    """Return the table and its text, which counts the differences that are clear.

    Parameters
    ----------
    table : DataFrame
        What :mod:`benchmarks.evidence.promise` wrote.
    """
    differences = {
        name: [difference(row, name) for _, row in table.iterrows()] for name in ("accuracy", "samples")
    }
    clear = sum(not low <= 0 <= high for found in differences.values() for _, low, high in found)
    rows = pd.DataFrame(
        {
            "LLM": table["llm"],
            "Strategy": [
                row["strategy"]
                if isinstance(row["calibrator"], float)
                else f"{row['strategy']}, {row['calibrator']}"
                for _, row in table.iterrows()
            ],
            "Accuracy promised": [measured(row, "promised_accuracy") for _, row in table.iterrows()],
            "Accuracy": [f"{value:.3f}" for value in table["accuracy"]],
            "Difference": [with_interval(*each) for each in differences["accuracy"]],
            "Samples promised": [measured(row, "promised_samples", 1) for _, row in table.iterrows()],
            "Samples": [f"{value:.1f}" for value in table["samples"]],
            "Difference of samples": [with_interval(*each, 1) for each in differences["samples"]],
        }
    )
    again = table.dropna(subset="again")
    questions, stated, right = int(table["questions"].iloc[0]), table["stated"], table["accuracy"]
    text = paragraph(
        f"Each row is of {questions} new questions of nano-math, the same in all rows. Of {2 * len(table)}",
        f"differences, {2 * len(table) - clear} are compatible with 0. Asked again with",
        f"`{again['strategy'].iloc[0]}`, the run's own questions get {_listed(again['again'], 2)} where",
        f"{_listed(again['promised_accuracy'], 2)} were promised, with {_listed(again['samples_again'], 1)} samples",
        f"where {_listed(again['promised_samples'], 1)} were.",
        "So where new questions get something else, they are other questions: the interval of the promise is as",
        "important as its value. The probabilities that `prmcal ask` states are",
        f"{stated.min():.3f} to {stated.max():.3f} on average, where {right.min():.3f} to",
        f"{right.max():.3f} of the answers are right. Of the questions,",
        f"{table['unfamiliar'].max() / questions:.0%} at most were unlike the calibration",
        "questions. With the weak LLM, 40 questions were answered",
        f"{table['times_as_fast'].iloc[0]:.1f} times as fast together as one after the other.",
    )
    return f"{markdown(rows)}\n\n{text}"


def _listed(values: pd.Series, digits: int) -> str:
    *first, last = (f"{value:.{digits}f}" for value in values)
    return f"{', '.join(first)} and {last}"
