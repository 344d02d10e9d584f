"""The names that all of prmcal shares: leaderboards, metrics as readers see them, tiers, and identifiers of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

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
"""Metrics that measure the cost of a strategy, besides its samples."""

PARTS_OF_COSTS = ("other_tokens",)
"""Metrics that measure a part of a cost."""

NOT_COMPARED = (*COSTS, *PARTS_OF_COSTS, "order_error")
"""Metrics by which cells are never compared."""

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


SCALING = (
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
        "abstained",
        "Not answered",
        "scaling",
        None,
        "Share of questions for which the strategy says that it does not know.",
    ),
    Metric(
        "wrong",
        "Answered wrongly",
        "scaling",
        "lower",
        "Share of questions that are answered, and wrongly: the risk that an abstaining strategy promises.",
    ),
    Metric(
        "order_error",
        "Order error",
        "scaling",
        None,
        "Standard error of the accuracy that comes from a limited number of random orders of the samples.",
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
        "other_tokens",
        "Other LLM's tokens",
        "scaling",
        None,
        "The part of the generated tokens that a strategy asks of another LLM.",
    ),
    Metric(
        "escalated",
        "Escalated",
        "scaling",
        None,
        "Share of questions on which a strategy asks another LLM.",
    ),
    Metric(
        "gain_over_own",
        "Gain over own LLM",
        "scaling",
        None,
        "Accuracy of a strategy that may ask another LLM, minus that of its own LLM alone.",
    ),
    Metric(
        "gain_over_other",
        "Gain over other LLM",
        "scaling",
        None,
        "Accuracy of a strategy that may ask another LLM, minus that of the other LLM alone.",
    ),
    Metric(
        "routing_gain",
        "Gain over chance",
        "scaling",
        None,
        "Accuracy minus that if as many questions, chosen at random, were left to the other LLM.",
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
"""The metrics of the scaling leaderboard. Those of the calibration leaderboard are plugins."""


class Metrics(Mapping[str, Metric]):
    """The metrics of a run by name, in the order of columns.

    Parameters
    ----------
    metrics : iterable of Metric
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._known = {metric.name: metric for metric in metrics}

    def __getitem__(self, name: str) -> Metric:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def title(self, name: str) -> str:
        """Return the title of a metric, also of one that the run does not describe."""
        return self[name].title if name in self else name.replace("_", " ").capitalize()

    def better(self, name: str) -> Better | None:
        """Return which value of a metric wins; None if none does, or the run does not describe the metric."""
        return self[name].better if name in self else None

    def direction(self, name: str) -> str:
        """Return which values of a metric are better, such as "lower is better"; empty if none are."""
        better = self.better(name)
        return f"{'closer to 0' if better == 'near zero' else better} is better" if better else ""

    def description(self, name: str) -> str:
        """Return what a metric measures; empty if the run does not describe it."""
        return self[name].description if name in self else ""

    def of(self, leaderboard: Leaderboard) -> list[Metric]:
        """Return the metrics of a leaderboard."""
        return [metric for metric in self.values() if metric.leaderboard == leaderboard]

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of columns, and then those that the run does not describe by the alphabet."""
        given = set(names)
        return [name for name in self if name in given] + sorted(given - self.keys())


def with_terminal(name: str) -> str:
    """Return the name of a calibration metric that counts terminal prefixes, which contain their final answer."""
    return f"{name}_with_terminal"


def counting_terminal(metric: Metric) -> Metric:
    """Return what a calibration metric is called where it counts terminal prefixes."""
    return replace(
        metric,
        name=with_terminal(metric.name),
        title=f"{metric.title}, with terminal",
        description=f"{metric.description} Prefixes that contain their final answer count too.",
    )


Tier = Literal["consistent", "graded again", "scored again", "reproduced"]
"""A tier of a verification. Each includes those before it."""

TIERS: tuple[Tier, ...] = get_args(Tier)
"""The tiers in their order."""


def cell_id(
    leaderboard: Leaderboard,
    llm: str,
    dataset: str,
    *,
    prm: str | None = None,
    calibrator: str | None = None,
    strategy: str | None = None,
    target: float | None = None,
    level: float | None = None,
) -> str:
    """Return the identifier of the cell with these coordinates. It is the same in every run.

    Returns
    -------
    str
        For example ``calibration/weak/qwen/isotonic/nano-math`` or
        ``scaling/weak/qwen/isotonic/nano-math/best-of-n+ias/C=0.99/beta=0.1``.
        Coordinates that are None are left out.
    """
    parts = [leaderboard, llm, prm, calibrator, dataset]
    if strategy is not None:
        parts.append(strategy.replace(" + ", "+").replace(" ", "-").lower())
    if target is not None:
        parts.append(f"C={target:g}")
    if level is not None:
        parts.append(f"beta={level:g}")
    return "/".join(part for part in parts if part is not None)


def cell_number(number: int) -> str:
    """Return a short number as readers see it, such as ``#12``."""
    return f"#{number}"
