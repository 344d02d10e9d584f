"""The statistics of a world of LLMs and PRMs: hard and easy questions, wrong answers that agree, and verification.

    python -m benchmarks.evidence.world runs/nano

It prints a table with one line per data set, LLM and PRM. `theta`, `never` and `always` are those of the LLM: two wrong
answers of a question are equal with probability 1/(1 + theta), and `never` and `always` are the shares of questions of
which no sample, or every sample, is right. `optimum` is the n at which best-of-n is most accurate.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.evidence.verification import last_rewards
from prmcal.db.catalog import leaderboard
from prmcal.db.run_folder import published_path
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.posterior_vote import diversity_of

_PLACE = ["dataset", "llm", "prm"]


def world(directory: Path) -> pd.DataFrame:
    """Return the statistics of each data set, LLM and PRM of a finished run."""
    source = published_path(directory)
    scaling = leaderboard(source, "scaling")
    places = scaling.loc[scaling["strategy"] == "best-of-n", _PLACE].to_dict("records")
    return pd.DataFrame({**place, **statistics(last_rewards(source, place))} for place in places)


def statistics(samples: pd.DataFrame) -> dict[str, float]:
    """Return the statistics of samples, which have a question, a number, an answer, a verdict and a score each."""
    shaped = samples.assign(named=pd.factorize(samples["answer"])[0]).pivot(
        index="question_id", columns="trajectory", values=["correct", "named", "logit"]
    )
    correct = shaped["correct"].to_numpy(bool)
    scores = shaped["logit"].to_numpy(float)
    counts = np.arange(1, correct.shape[1] + 1)
    curve = best_of_n(scores, correct, counts).mean(axis=0)
    share = correct.mean(axis=1)
    mixed = np.flatnonzero((share > 0) & (share < 1))
    return {
        "auc": float(np.mean([roc_auc_score(correct[row], scores[row]) for row in mixed])),
        "pass_at_1": float(share.mean()),
        "theta": diversity_of(shaped["named"].to_numpy(np.int64), correct),
        "never": float((share == 0).mean()),
        "always": float((share == 1).mean()),
        "optimum": int(counts[np.argmax(curve)]),
        "at_optimum": float(curve.max()),
        "at_n": float(curve[-1]),
        "n": int(counts[-1]),
    }


def held(name: str, low: float, high: float, value: float) -> None:
    """Raise an error if a statistic of the model card is not in its range.

    Raises
    ------
    AssertionError
        If the value is not between both limits.
    """
    assert low <= value <= high, f"{name} is {value:.3f}, and the model card says {low:g} to {high:g}"


if __name__ == "__main__":
    print(world(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano")).round(3).to_string(index=False))
