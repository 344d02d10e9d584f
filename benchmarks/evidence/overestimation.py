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
import sqlalchemy as sa

from prmcal.db.queries.catalog import leaderboard
from prmcal.db.reader import frame
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.tables import QuestionResult
from prmcal.registry.strategies.budgets import adaptive_samples

_HEAD = (
    "data set",
    "LLM",
    "PRM",
    "pass@1",
    "signed error",
    "Brier, corrected",
    "IAS samples, uncalibrated",
    "samples needed",
    "IAS accuracy, uncalibrated",
    "best-of-N accuracy",
)


def main(directory: Path) -> None:
    source = published_path(directory)
    calibration = leaderboard(source, "calibration", calibrator=["uncalibrated"])
    scaling = leaderboard(source, "scaling")
    print("| " + " | ".join(_HEAD) + " |")
    print("|" + " --- |" * len(_HEAD))
    for cell in calibration.to_dict("records"):
        same = scaling[(scaling["dataset"] == cell["dataset"]) & (scaling["llm"] == cell["llm"])]
        alone = _only(same[same["strategy"] == "pass@1"])
        of_prm = same[same["prm"] == cell["prm"]]
        best = _only(of_prm[of_prm["strategy"] == "best-of-n"])
        adaptive = _only(
            of_prm[(of_prm["strategy"] == "best-of-n + IAS") & (of_prm["calibrator"] == "uncalibrated")]
        )
        values = [
            cell["dataset"],
            cell["llm"],
            cell["prm"],
            _shown(alone, "accuracy"),
            _shown(cell, "signed_error"),
            _shown(cell, "brier_corrected"),
            _shown(adaptive, "samples", 1),
            _needed(source, alone["cell_id"], adaptive["target"], int(best["samples"])),
            _shown(adaptive, "accuracy"),
            _shown(best, "accuracy"),
        ]
        print("| " + " | ".join(values) + " |")


def _only(rows: Any) -> dict[str, Any]:
    """Return the first row. With several targets C, it has the lowest one."""
    record: dict[str, Any] = rows.iloc[0].to_dict()
    return record


def _shown(cell: dict[str, Any], metric: str, digits: int = 3) -> str:
    low, high = cell[f"{metric}_low"], cell[f"{metric}_high"]
    return f"{cell[metric]:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _needed(source: Path, cell_id: str, target: float, maximum: int) -> str:
    query = sa.select(QuestionResult.value).where(
        QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy"
    )
    chances = frame(source, query)["value"].to_numpy(np.float64)
    found = estimate(QuestionMean(adaptive_samples(chances, target, maximum)), Bootstrap())
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano"))
