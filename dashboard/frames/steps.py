"""The steps of one trajectory: texts, rewards, success rates, and the budgets that they imply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from prmcal.dashboard.frames.cells import MEDIAN
from prmcal.db.statistics.budgets import whole_samples_needed
from prmcal.steps import split_steps

__all__ = ["clopper_pearson", "step_table", "step_texts"]


def step_texts(text: str, steps: int) -> list[str]:
    """Split the text of a trajectory into its steps at blank lines.

    Parameters
    ----------
    text : str
        The text that the LLM generated.
    steps : int
        The number of steps T that the PRM scored. If the text splits into another number of parts, the last step has
        all of the text and the others are empty.
    """
    found = list(split_steps(text))
    return found if len(found) == steps else [*[""] * (steps - 1), text][:steps]


def clopper_pearson(successes: ArrayLike, follow_ups: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the exact 95% interval of a success probability, given k successes of n (Clopper and Pearson, 1934).

    Returns
    -------
    low, high : ndarray of float64, in [0, 1]
        NaN where n is 0.
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(follow_ups, dtype=np.float64)
    measured = n > 0
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, 0.025), 0.0)
        high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 0.975), 1.0)
    return np.where(measured, low, np.nan), np.where(measured, high, np.nan)


def step_table(prefixes: pd.DataFrame, trajectory: int, target: float) -> pd.DataFrame:
    """Return one row for each prefix of a trajectory, with the budgets that its rewards and success rate imply.

    Parameters
    ----------
    prefixes : DataFrame
        The prefixes of a question, one row for each prefix and level beta, as
        :func:`prmcal.db.catalog.prefixes` returns them.
    trajectory : int
        The index of the trajectory.
    target : float
        Target probability C in (0, 1).

    Returns
    -------
    DataFrame
        Columns step, reward, over_long, successes, follow_ups, terminal; calibrated (the median), band_low and
        band_high (the lowest and the highest quantile); success with its interval low and high, which has width 0
        where the prefix contains the final answer; and the samples needed: budget_reward, budget_calibrated,
        budget_band (from band_low) and budget_success. Unknown values are missing.
    """
    own = prefixes[prefixes["trajectory"] == trajectory]
    table = own.drop_duplicates("step").set_index("step")[
        ["reward", "over_long", "successes", "follow_ups", "terminal"]
    ]
    rewards = own.dropna(subset=["level"]).pivot(index="step", columns="level", values="calibrated_reward")
    rewards = rewards.reindex(table.index)
    unknown = pd.Series(np.nan, index=table.index)
    table["calibrated"] = rewards.get(MEDIAN, unknown)
    several = len(rewards.columns) > 1
    table["band_low"] = rewards[min(rewards.columns)] if several else unknown
    table["band_high"] = rewards[max(rewards.columns)] if several else unknown
    k = table["successes"].to_numpy(dtype=np.float64, na_value=np.nan)
    n = table["follow_ups"].to_numpy(dtype=np.float64, na_value=np.nan)
    table["success"] = k / n
    certain = table["terminal"].eq(True).to_numpy(dtype=bool, na_value=False)
    low, high = clopper_pearson(np.nan_to_num(k), np.nan_to_num(n))
    table["low"], table["high"] = (np.where(certain, table["success"], end) for end in (low, high))
    for name, column in (
        ("reward", "reward"),
        ("calibrated", "calibrated"),
        ("band", "band_low"),
        ("success", "success"),
    ):
        table[f"budget_{name}"] = whole_samples_needed(
            table[column].to_numpy(dtype=np.float64, na_value=np.nan), target
        )
    return table.reset_index()
