"""Measured values and histograms of errors, with the group that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Group", "RewardErrors", "Value", "value_of"]


@dataclass(frozen=True, order=True)
class Group:
    """A data set, PRM and LLM. Cells of the same group compete."""

    dataset: str
    prm: str
    llm: str


@dataclass(frozen=True)
class Value:
    """The value of a metric of a cell, or the reason why there is none.

    Attributes
    ----------
    group : Group
    calibrator : str or None
        None for a strategy without a calibrator.
    metric, status : str
    value, low, high : float or None
        The value with its 95% interval over questions. A single question has no interval.
    prefixes, questions : int or None
        Number of prefixes (of trajectories, for a strategy) and of questions behind the value.
    standing : {"best", "tied", "worse", "kept", "not kept", "open"} or None
        Rank among the values that it competes with, or whether the value keeps a promise.
    reason : str or None
        Why there is no value, in one line.
    strategy : str or None
    target, level : float or None
        Target probability C and quantile level beta of a strategy.
    question_level : int or None
        Difficulty of the questions; None for all questions.
    published : str or None
        The number of the paper for the same names, with the digits of the paper.
    """

    group: Group
    calibrator: str | None
    metric: str
    status: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    prefixes: int | None = None
    questions: int | None = None
    standing: str | None = None
    reason: str | None = None
    strategy: str | None = None
    target: float | None = None
    level: float | None = None
    question_level: int | None = None
    published: str | None = None


@dataclass(frozen=True)
class RewardErrors:
    """Errors of the uncalibrated rewards of a PRM: reward minus success rate.

    Attributes
    ----------
    counts : tuple of int
        Number of prefixes in each bar of equal width over [-1, 1].
    mean : float
        Mean error in [-1, 1]. Above 0, the PRM overestimates.
    low, high : float or None
        95% interval of the mean over questions.
    prefixes, questions : int
        Number of prefixes and questions.
    """

    counts: tuple[int, ...]
    mean: float
    low: float | None
    high: float | None
    prefixes: int
    questions: int


def value_of(group: Group, row: Mapping[str, Any]) -> Value:
    """Return the value in a row of a leaderboard.

    Parameters
    ----------
    group : Group
        Where it is shown. A strategy without a PRM is shown with every PRM.
    row : mapping
        A row of :func:`prmcal.db.queries.leaderboard.measurements` with a metric.
    """
    import pandas as pd

    def known(name: str) -> Any:
        return None if pd.isna(row[name]) else row[name]

    return Value(
        group=group,
        calibrator=known("calibrator"),
        metric=row["metric"],
        status=row["status"],
        value=known("value"),
        low=known("low"),
        high=known("high"),
        prefixes=known("rows"),
        questions=known("questions"),
        standing=known("standing"),
        strategy=known("strategy"),
        target=known("target"),
        level=known("level"),
    )
