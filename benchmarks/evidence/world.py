"""The statistics of the nano world beside those of recorded models, for the model card.

    python -m benchmarks.evidence.world runs/nano

It prints the statistics of each data set, LLM and PRM of a finished run. The model card has a table of them with what
was aimed at, and with those of recorded models.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.documents.shown import markdown
from benchmarks.evidence.verification import last_rewards
from prmcal.db.catalog import leaderboard
from prmcal.db.run_folder import published_path
from prmcal.registry.strategies.best_of import best_of_n

_SETTING = ["dataset", "llm", "prm"]
_MATH, _AIME = "nano-math", "nano-aime"
_ISOTONIC = "isotonic"


def world(directory: Path) -> pd.DataFrame:
    """Return the statistics of each data set, LLM and PRM of a finished run.

    `auc`, `pass_at_1`, `theta`, `never` and `always` are those of :func:`statistics`. `brier` and `adaptive_ce` are of
    the uncalibrated rewards, and `isotonic_brier` and `isotonic_adaptive_ce` of the calibrated ones.
    """
    source = published_path(directory)
    scaling, calibration = leaderboard(source, "scaling"), leaderboard(source, "calibration")
    settings = scaling.loc[scaling["strategy"] == "best-of-n", _SETTING].to_dict("records")
    table = pd.DataFrame({**setting, **statistics(last_rewards(source, setting))} for setting in settings)
    for calibrator, prefix in (("uncalibrated", ""), (_ISOTONIC, f"{_ISOTONIC}_")):
        errors = calibration.loc[calibration["calibrator"] == calibrator, [*_SETTING, "brier", "adaptive_ce"]]
        names = {name: f"{prefix}{name}" for name in ("brier", "adaptive_ce")}
        table = table.merge(errors.rename(columns=names), on=_SETTING, how="left")
    return table


def statistics(samples: pd.DataFrame) -> dict[str, float]:
    """Return the statistics of samples of several questions.

    Parameters
    ----------
    samples : DataFrame
        The columns `question_id`, `trajectory`, `answer`, `correct` and `logit`, with equally many trajectories of each
        question.

    Returns
    -------
    dict
        `auc`: the mean over questions with right and wrong samples of the area under the ROC curve of the last score.
        `pass_at_1`: the share of right samples. `theta`: two wrong answers of a question are equal with probability
        1 / (1 + theta). `never`, `always`: the shares of questions of which no sample, or every sample, is right.
        `optimum`, `at_optimum`: the n for which best-of-n is most accurate, and its accuracy. `n`, `at_n`: the number
        of samples, and the accuracy of best-of-n with all of them.
    """
    answers = pd.Series(pd.factorize(samples["answer"])[0], index=samples.index)
    shaped = samples.assign(answer=answers).pivot(index="question_id", columns="trajectory")
    correct, scores = shaped["correct"].to_numpy(bool), shaped["logit"].to_numpy(float)
    counts = np.arange(1, correct.shape[1] + 1)
    curve = best_of_n(scores, correct, counts).mean(axis=0)
    share = correct.mean(axis=1)
    mixed = np.flatnonzero((share > 0) & (share < 1))
    return {
        "auc": float(np.mean([roc_auc_score(correct[row], scores[row]) for row in mixed])),
        "pass_at_1": float(share.mean()),
        "theta": diversity_of(shaped["answer"].to_numpy(np.int64), correct),
        "never": float((share == 0).mean()),
        "always": float((share == 1).mean()),
        "optimum": int(counts[np.argmax(curve)]),
        "at_optimum": float(curve.max()),
        "n": int(counts[-1]),
        "at_n": float(curve[-1]),
    }


def diversity_of(answers: NDArray[np.int64], correct: NDArray[np.bool_]) -> float:
    """Return theta, which says how rarely wrong answers agree: two of them are equal with probability 1 / (1 + theta).

    It is above 0, and is estimated from all pairs of wrong answers of the same question, with one equal and one
    different pair added. Both arguments have the shape (questions, M). A trajectory without an answer, -1, is left out.
    """
    wrong = ~correct & (answers >= 0)
    pair = wrong[:, :, None] & wrong[:, None, :] & ~np.eye(answers.shape[1], dtype=np.bool_)
    equal = (pair & (answers[:, :, None] == answers[:, None, :])).sum() / 2
    different = pair.sum() / 2 - equal
    return float((different + 1) / (equal + 1))


@dataclass(frozen=True)
class Aim:
    """One statistic of the world.

    Attributes
    ----------
    name : str
        What the statistic is.
    aim : str
        The range that was aimed at, in words.
    recorded : str
        The statistic of recorded or published models.
    measured : str
        The statistic of the nano models.
    met : bool
        Whether it is in the range.
    """

    name: str
    aim: str
    recorded: str
    measured: str
    met: bool


def aims(table: pd.DataFrame) -> list[Aim]:
    """Return the statistics of the nano world, from what :func:`world` returns."""
    math, aime = (table[table["dataset"] == name] for name in (_MATH, _AIME))
    llms = math.drop_duplicates("llm").set_index("llm")
    far = aime.drop_duplicates("llm").set_index("llm")
    order = ["nano-weak", "nano-middle", "nano-strong"]
    passed, harder = llms.loc[order, "pass_at_1"], far.loc[order, "pass_at_1"]
    ranges = ((0.3, 0.45), (0.5, 0.6), (0.75, 0.85))
    reduction, far_reduction = (
        1 - float(rows["isotonic_brier"].mean() / rows["brier"].mean()) for rows in (math, aime)
    )
    worse = (1 - aime["isotonic_brier"] / aime["brier"] < reduction) | (
        aime["isotonic_adaptive_ce"] > aime["adaptive_ce"]
    )
    best = math.pivot(index="prm", columns="llm", values="optimum").loc[list(dict.fromkeys(math["prm"]))]
    return [
        Aim(
            "pass@1 on nano-math: weak, middle, strong",
            ".30 to .45, .50 to .60, .75 to .85; lower on nano-aime",
            "",
            ", ".join(f"{share:.2f}" for share in passed),
            all(low <= share <= high for share, (low, high) in zip(passed, ranges, strict=True))
            and bool((harder < passed).all()),
        ),
        Aim(
            "AUC of the last score within a question, on nano-math",
            ".70 to .92",
            ".68 (ReasonEval-7B), .88 (Shepherd, ReasonEval-34B), .90 (Qwen ORM)",
            _span(math["auc"], 3),
            bool(math["auc"].between(0.70, 0.92).all()),
        ),
        Aim("theta, on nano-math", "below 4", "3.8, .33, .94", _span(llms["theta"]), bool((llms["theta"] < 4).all())),
        Aim(
            "questions of nano-math that are never right",
            "15% to 40% for some policy",
            "42%, 8%, 4%",
            _percents(llms.loc[order, "never"]),
            bool(llms["never"].between(0.15, 0.40).any()),
        ),
        Aim(
            "questions of nano-math that are always right",
            "5% to 20% for some policy",
            "18%, 45%, 86%",
            _percents(llms.loc[order, "always"]),
            bool(llms["always"].between(0.05, 0.20).any()),
        ),
        Aim(
            "Brier reduction by isotonic regression, on nano-math",
            "15% to 45%",
            "23% (MATH)",
            f"{reduction:.0%}",
            0.15 <= reduction <= 0.45,
        ),
        Aim(
            "the same on nano-aime, out of distribution",
            "less, or AdaptiveCE worse, in most settings",
            "8% (AIME); AdaptiveCE worse in 10 of 12 rows",
            f"{far_reduction:.0%}; so in {worse.sum()} of {len(worse)} settings",
            bool(worse.mean() > 0.5),
        ),
        Aim(
            "the n at which best-of-n is most accurate, on nano-math: weak, middle, strong",
            "for an LLM, below 64 with one PRM and 64 with another",
            "",
            "; ".join(f"{prm.removeprefix('nano-')} {_listed(best.loc[prm, order])}" for prm in best.index),
            bool(((best == math["n"].max()).any() & (best < math["n"].max()).any()).any()),
        ),
    ]


def comparison(table: pd.DataFrame) -> str:
    """Return the table of the model card: each statistic with its aim and those of other models, in Markdown."""
    rows = [
        {
            "statistic": statistic.name,
            "aim": statistic.aim,
            "nano models": statistic.measured if statistic.met else f"{statistic.measured} (missed)",
            "recorded or published": statistic.recorded,
        }
        for statistic in aims(table)
    ]
    return markdown(pd.DataFrame(rows))


def _span(values: pd.Series, digits: int = 2) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def _percents(values: pd.Series) -> str:
    return ", ".join(f"{value:.0%}" for value in values)


def _listed(values: pd.Series) -> str:
    return ", ".join(str(value) for value in values)


if __name__ == "__main__":
    print(world(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano")).round(3).to_string(index=False))
