"""A pool from any file that an audit reads: the numbers of its solutions, without their texts."""

import hashlib

import numpy as np
import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.audit.scored import ScoredSolutions

_LONGEST_NAME = 60


def pool_of(scored: ScoredSolutions, llm: str) -> pd.DataFrame:
    """Return scored solutions as the rows of a pool, with an equal number for each question.

    The text of a question becomes a hash, and equal answers of a question become equal numbers. Right answers are
    equal. Scores are in [0, 1], or unchanged log-odds. The bare question has none. Raises a DataError if labels of
    whole solutions or scores are missing, or if the solutions do not answer their questions.
    """
    if scored.alarm:
        raise DataError(scored.alarm)
    solutions = scored.solutions
    if not solutions["label"].isin([0.0, 1.0]).all() or scored.target in ("first error", "step"):
        raise DataError("A pool needs labels that say whether each whole solution is right.")
    steps = scored.prefixes[scored.prefixes["step"] > 0].sort_values("step")
    column = "score" if scored.scale.name == "logit" else "reward"
    scores = steps.groupby(["question", "solution"])[column].agg(list).rename("score")
    rows = solutions.drop(columns=["score", "steps", "reward"]).join(scores, on=["question", "solution"])
    if rows["score"].isna().any():
        raise DataError("A pool needs a score of every solution. Leave out solutions without one.")
    counts = rows["question"].value_counts()
    samples = int(counts.median())
    rows = rows[rows["question"].isin(counts.index[counts >= samples]) & (rows["solution"] < samples)].copy()
    rows["question"] = rows["question"].map(lambda number: _question_name(scored.questions[number]))
    rows["correct"] = rows.pop("label") == 1
    answer = rows.pop("answer")
    if answer.notna().any():
        answers = answer.astype("string").where(~rows["correct"], "the right one").where(answer.notna())
        numbers = answers.groupby(rows["question"]).transform(lambda texts: texts.factorize()[0]).astype(int)
        # Solutions without an answer agree with no other.
        rows["prediction"] = numbers.where(numbers >= 0, -1 - rows["solution"]).astype("int16")
    if rows["score"].str.len().max() == 1:
        rows["score"] = rows["score"].str[0].astype("float32")
    else:
        rows["score"] = rows["score"].map(lambda scores: np.array(scores, dtype=np.float32))
    rows.insert(0, "llm", llm)
    return rows.dropna(axis=1, how="all").reset_index(drop=True)


def _question_name(question: str) -> str:
    """Return the name of a question: a short name unchanged, or the hash of a text."""
    is_name = len(question) <= _LONGEST_NAME and not any(map(str.isspace, question))
    return question if is_name else hashlib.sha256(question.encode()).hexdigest()[:12]
