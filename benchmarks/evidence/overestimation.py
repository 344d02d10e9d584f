"""Overestimation by policy, and its effect on IAS (compare the paper's Figure 2 and Table 2).

    python -m benchmarks.evidence.overestimation runs/nano

It prints a Markdown table of the uncalibrated PRMs, with one line per data set, LLM and PRM. The columns include the
mean difference of rewards and measured success rates, the samples that IAS requests with these rewards, and the samples
that the questions need: the mean over questions of min(N_IAS(pass@1 of the question, C), N).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from benchmarks.documents.shown import markdown, measured, with_interval
from prmcal.db.catalog import leaderboard
from prmcal.db.reader import frame
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.tables import QuestionResult
from prmcal.registry.strategies.scaling import adaptive_samples


def overestimation(directory: Path) -> pd.DataFrame:
    """Return the table of a finished run, as text."""
    source = published_path(directory)
    calibration = leaderboard(source, "calibration", calibrator=["uncalibrated"])
    scaling = leaderboard(source, "scaling")
    rows = []
    for cell in calibration.to_dict("records"):
        same = scaling[(scaling["dataset"] == cell["dataset"]) & (scaling["llm"] == cell["llm"])]
        alone = _first(same[same["strategy"] == "pass@1"])
        of_prm = same[same["prm"] == cell["prm"]]
        best = _first(of_prm[of_prm["strategy"] == "best-of-n"])
        adaptive = _first(of_prm[(of_prm["strategy"] == "best-of-n + IAS") & (of_prm["calibrator"] == "uncalibrated")])
        rows.append(
            {
                "data set": cell["dataset"],
                "LLM": cell["llm"],
                "PRM": cell["prm"],
                "pass@1": measured(alone, "accuracy"),
                "signed error": measured(cell, "signed_error"),
                "Brier, corrected": measured(cell, "brier_corrected"),
                "IAS samples, uncalibrated": measured(adaptive, "samples", 1),
                "samples needed": _needed(source, alone["cell_id"], adaptive["target"], int(best["samples"])),
                "IAS accuracy, uncalibrated": measured(adaptive, "accuracy"),
                "best-of-N accuracy": measured(best, "accuracy"),
            }
        )
    return pd.DataFrame(rows)


def _first(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the first row. With several targets C, it has the lowest one."""
    record: dict[str, Any] = rows.iloc[0].to_dict()
    return record


def _needed(source: Path, cell_id: str, target: float, maximum: int) -> str:
    query = sa.select(QuestionResult.value).where(
        QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy"
    )
    chances = frame(source, query)["value"].to_numpy(np.float64)
    mean = estimate(QuestionMean(adaptive_samples(chances, target, maximum)), Bootstrap())
    return with_interval(mean.value, mean.low, mean.high, 1)


if __name__ == "__main__":
    print(markdown(overestimation(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano"))))
