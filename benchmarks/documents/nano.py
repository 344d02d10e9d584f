"""Tables of a finished run of nano for its model card: how far the PRMs overestimate, and how well they tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.tables import measured, rows_where, with_interval
from prmcal.arrays import Floats
from prmcal.db.catalog import leaderboard
from prmcal.db.metrics import SETTING
from prmcal.db.queries.trajectories import scored_prefixes, scored_settings
from prmcal.db.reader import frame
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.db.tables import QuestionResult
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.scaling import adaptive_samples

SAMPLE = ["question_id", "trajectory"]
_RAW, _ISOTONIC, _IAS = "uncalibrated", "isotonic", "best-of-n + IAS"


def overestimation(source: Path) -> pd.DataFrame:
    """Return how far the uncalibrated PRMs overestimate, as text (compare the paper's Figure 2 and Table 2).

    "Samples needed" is the mean over questions of min(N_IAS(pass@1 of the question, C), N).
    """
    calibration, scaling = leaderboard(source, "calibration", calibrator=[_RAW]), leaderboard(source, "scaling")
    rows = []
    for cell in calibration.to_dict("records"):
        single = _cell(scaling, cell, "pass@1", prm=None)
        best, adaptive = _cell(scaling, cell, "best-of-n"), _cell(scaling, cell, _IAS, calibrator=_RAW)
        rows.append(
            {
                "data set": cell["dataset"],
                "LLM": cell["llm"],
                "PRM": cell["prm"],
                "pass@1": measured(single, "accuracy"),
                "signed error": measured(cell, "signed_error"),
                "Brier, corrected": measured(cell, "brier_corrected"),
                "IAS samples, uncalibrated": measured(adaptive, "samples", ".1f"),
                "samples needed": _needed(source, single["cell_id"], adaptive["target"], int(best["samples"])),
                "IAS accuracy, uncalibrated": measured(adaptive, "accuracy"),
                "best-of-N accuracy": measured(best, "accuracy"),
            }
        )
    return pd.DataFrame(rows)


def _cell(scaling: pd.DataFrame, setting: dict[str, Any], strategy: str, **names: str | None) -> dict[str, Any]:
    """Return the first cell of a strategy at a setting. With several targets C, it has the lowest one."""
    at = {name: setting[name] for name in SETTING} | {"strategy": strategy} | names
    record: dict[str, Any] = rows_where(scaling, **at).iloc[0].to_dict()
    return record


def _needed(source: Path, cell_id: str, target: float, maximum: int) -> str:
    of_questions = sa.select(QuestionResult.value).where(QuestionResult.cell_id == cell_id)
    chances = frame(source, of_questions.where(QuestionResult.metric == "accuracy"))["value"].to_numpy(np.float64)
    mean = estimate(QuestionMean(adaptive_samples(chances, target, maximum)), Bootstrap())
    return with_interval(mean.value, mean.low, mean.high, ".1f")


def verification(source: Path) -> pd.DataFrame:
    """Return how well the PRMs distinguish right from wrong, as text. Calibration is only useful for PRMs that do.

    The area under the ROC curve is that of the last step's reward, within questions with right and wrong samples.
    """
    scaling, samples = leaderboard(source, "scaling"), dict(scored_samples(source))
    rows = []
    for cell in scaling[scaling["strategy"] == "best-of-n"].to_dict("records"):
        areas = areas_within(samples[tuple(cell[name] for name in SETTING)])
        area = estimate(QuestionMean(areas, interval=bounded_interval), Bootstrap())
        rows.append(
            {
                "data set": cell["dataset"],
                "LLM": cell["llm"],
                "PRM": cell["prm"],
                "AUC within a question": with_interval(area.value, area.low, area.high),
                "questions": str(area.questions),
                "pass@1": measured(_cell(scaling, cell, "pass@1", prm=None), "accuracy"),
                "best-of-N": measured(cell, "accuracy"),
            }
        )
    return pd.DataFrame(rows)


def scored_samples(source: Path) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Yield each setting of a run, and its test trajectories with `logit`, the log-odds of the whole trajectory."""
    settings = scored_settings(source)
    for setting in settings[settings["split"] == "test"].to_dict("records"):
        trajectories, prefixes = scored_prefixes(source, setting)
        last = prefixes.sort_values("step").groupby(SAMPLE)["logit"].last()
        yield tuple(setting[name] for name in SETTING), trajectories.join(last, on=SAMPLE)


def areas_within(samples: pd.DataFrame) -> Floats:
    """Return the area under the ROC curve for each question that has both right and wrong trajectories."""
    mixed = [group for _, group in samples.groupby("question_id") if group["correct"].nunique() == 2]
    return np.array([roc_auc_score(group["correct"], group["logit"]) for group in mixed])


def world(source: Path) -> pd.DataFrame:
    """Return the statistics of each data set, LLM and PRM of a finished run: see :func:`statistics`.

    `brier` and `adaptive_ce` are of the uncalibrated rewards, and those with `isotonic_` of the calibrated ones.
    """
    calibration = leaderboard(source, "calibration")
    rows = [{**dict(zip(SETTING, at, strict=True)), **statistics(samples)} for at, samples in scored_samples(source)]
    table = leaderboard(source, "scaling").query("strategy == 'best-of-n'")[SETTING].merge(pd.DataFrame(rows))
    for calibrator, prefix in ((_RAW, ""), (_ISOTONIC, f"{_ISOTONIC}_")):
        errors = calibration.loc[calibration["calibrator"] == calibrator, [*SETTING, "brier", "adaptive_ce"]]
        names = {name: f"{prefix}{name}" for name in ("brier", "adaptive_ce")}
        table = table.merge(errors.rename(columns=names), on=SETTING, how="left")
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
    shaped = samples[[*SAMPLE, "correct", "logit"]].assign(answer=answers).pivot(index=SAMPLE[0], columns=SAMPLE[1])
    correct = shaped["correct"].to_numpy(bool)
    counts = np.arange(1, correct.shape[1] + 1)
    curve = best_of_n(shaped["logit"].to_numpy(float), correct, counts).mean(axis=0)
    share = correct.mean(axis=1)
    return {
        "auc": float(areas_within(samples).mean()),
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
