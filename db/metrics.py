"""The metrics of the leaderboards: their names, titles, directions and meaning, in the order of columns.

How they are computed belongs in ``prmcal.harness.metrics``; how they are shown belongs in :mod:`prmcal.db.text`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "COORDINATES",
    "COSTS",
    "COVERAGE_LEVELS",
    "MAIN_METRICS",
    "METRICS",
    "RANKING_METRIC",
    "Better",
    "Leaderboard",
    "Metric",
    "with_terminal",
]

Leaderboard = Literal["calibration", "scaling", "league"]
Better = Literal["lower", "higher", "near zero"]

COORDINATES = ("dataset", "llm", "prm", "strategy", "target", "level", "calibrator")
"""The columns that identify a cell of a leaderboard, in the order by which rows are sorted."""

MAIN_METRICS: dict[Leaderboard, tuple[str, ...]] = {
    "calibration": ("brier_corrected", "adaptive_ce_corrected", "signed_error"),
    "scaling": ("accuracy", "budget_ratio", "pass_at_n"),
    "league": ("area_gain", "accuracy_at_4", "accuracy_at_16", "saving_95"),
}
"""The metrics of each leaderboard that are shown unless the reader chooses others."""

RANKING_METRIC = "brier_corrected"
"""The calibration metric by which calibrators are ranked."""

COSTS = ("generated_tokens", "prefill_tokens", "prm_tokens")
"""Metrics that measure the cost of a strategy, besides its samples. They are never compared."""

COVERAGE_LEVELS = {f"coverage_{level:g}": level for level in (0.1, 0.5, 0.9)}
"""The metrics that measure coverage, and the level beta of each."""


LEAGUE_BUDGETS = (2, 4, 8, 16, 32, 64)
"""The mean numbers of samples at which the league shows the accuracy of strategies."""

LEAGUE_SHARE = 0.95
"""The share of the accuracy of best-of-N whose cost the league shows."""


def accuracy_at_name(budget: int) -> str:
    """Return the name of the metric of the league that is the accuracy at a mean number of samples."""
    return f"accuracy_at_{budget}"


@dataclass(frozen=True)
class Metric:
    """A column of a leaderboard.

    Attributes
    ----------
    name, title : str
        The name in the database, and the one that readers see.
    leaderboard : {"calibration", "scaling"}
        The leaderboard that has the column.
    better : {"lower", "higher", "near zero"} or None
        Which value wins. None if no value is better by itself: a small budget, for example, may be too small.
    description : str
        What it measures, in one sentence.
    """

    name: str
    title: str
    leaderboard: Leaderboard
    better: Better | None
    description: str


_ALL = (
    Metric(
        "brier",
        "Brier",
        "calibration",
        "lower",
        "Mean squared difference between reward and success rate.",
    ),
    Metric(
        "brier_corrected",
        "Brier, corrected",
        "calibration",
        "lower",
        "Brier score minus the Monte Carlo noise of the success rates; it can fall below 0 by chance.",
    ),
    Metric(
        "positive_brier",
        "Positive Brier",
        "calibration",
        "lower",
        "Brier score of overestimation only: rewards below the success rate count as 0.",
    ),
    Metric(
        "ece",
        "ECE",
        "calibration",
        "lower",
        "Calibration error over bins of equal width, weighted by count. Noise increases it.",
    ),
    Metric(
        "ece_corrected",
        "ECE, corrected",
        "calibration",
        "lower",
        "ECE without the increase by noise. A value below 0 is shown as 0.",
    ),
    Metric(
        "adaptive_ce",
        "Adaptive CE",
        "calibration",
        "lower",
        "Calibration error over bins of equal mass. Noise increases it.",
    ),
    Metric(
        "adaptive_ce_corrected",
        "Adaptive CE, corrected",
        "calibration",
        "lower",
        "Adaptive CE without the increase by noise. A value below 0 is shown as 0.",
    ),
    Metric(
        "average_ce",
        "Average CE",
        "calibration",
        "lower",
        "Calibration error in the unweighted mean over the bins that are not empty. Noise increases it.",
    ),
    Metric(
        "average_ce_corrected",
        "Average CE, corrected",
        "calibration",
        "lower",
        "Average CE without the increase by noise. A value below 0 is shown as 0.",
    ),
    Metric(
        "signed_error",
        "Signed error",
        "calibration",
        "near zero",
        "Mean of reward minus success rate: above 0 the PRM overestimates.",
    ),
    Metric(
        "coverage_0.1",
        "Coverage, beta 0.1",
        "calibration",
        None,
        "How often the success probability is at least the reward (level 0.1, or a point estimate): 0.9 is ideal.",
    ),
    Metric(
        "coverage_0.5",
        "Coverage, beta 0.5",
        "calibration",
        None,
        "How often the success probability is at least the reward (the median): 0.5 is ideal.",
    ),
    Metric(
        "coverage_0.9",
        "Coverage, beta 0.9",
        "calibration",
        None,
        "How often the success probability is at least the reward (level 0.9, or a point estimate): 0.1 is ideal.",
    ),
    Metric(
        "accuracy",
        "Accuracy",
        "scaling",
        "higher",
        "Share of questions that are answered correctly.",
    ),
    Metric(
        "budget_ratio",
        "Budget ratio",
        "scaling",
        None,
        "Mean number of generations per question, divided by that of the fixed budget.",
    ),
    Metric(
        "samples",
        "Samples",
        "scaling",
        None,
        "LLM calls per question: trajectories that are drawn, or steps of a beam search.",
    ),
    Metric(
        "pass_at_n",
        "pass@N",
        "scaling",
        "higher",
        "Share of questions with a correct answer among the samples that were drawn.",
    ),
    Metric(
        "generated_tokens",
        "Generated tokens",
        "scaling",
        None,
        "Mean tokens per question that the LLM generates.",
    ),
    Metric(
        "prefill_tokens",
        "Prefill tokens",
        "scaling",
        None,
        "Mean prompt tokens per question that the LLM reads; the prompt of several samples counts once.",
    ),
    Metric(
        "prm_tokens",
        "PRM tokens",
        "scaling",
        None,
        "Mean tokens per question that the PRM reads.",
    ),
    Metric(
        "area",
        "Accuracy over budgets",
        "league",
        "higher",
        "Mean accuracy over budgets from 1 to N samples, where every doubling of the budget counts the same.",
    ),
    Metric(
        "area_gain",
        "Gain over fixed n",
        "league",
        None,
        "Accuracy over budgets, minus that of best-of-n with the same number of samples for every question.",
    ),
    Metric(
        "samples_to_95",
        "Samples for 95%",
        "league",
        "lower",
        "Mean samples with which it reaches 95% of the accuracy of best-of-N; N if it never does.",
    ),
    Metric(
        "saving_95",
        "Saving at 95%",
        "league",
        None,
        "Share of samples that it saves at 95% of the accuracy of best-of-N, compared with the smallest fixed n.",
    ),
    *(
        Metric(
            accuracy_at_name(budget),
            f"At {budget}",
            "league",
            "higher",
            f"Accuracy with {budget} samples per question on average.",
        )
        for budget in LEAGUE_BUDGETS
    ),
)


def with_terminal(name: str) -> str:
    """Return the name of a calibration metric that counts terminal prefixes, which contain their final answer."""
    return f"{name}_with_terminal"


_WITH_TERMINAL = tuple(
    replace(
        metric,
        name=with_terminal(metric.name),
        title=f"{metric.title}, with terminal",
        description=f"{metric.description} Prefixes that contain their final answer count too.",
    )
    for metric in _ALL
    if metric.leaderboard == "calibration"
)

METRICS = {metric.name: metric for metric in (*_ALL, *_WITH_TERMINAL)}
"""All metrics by name, in the order of columns."""
