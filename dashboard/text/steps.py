"""What is known of the steps of one trajectory: text, rewards, success rates, and the budgets that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from prmcal.db.statistics.budgets import samples_needed

__all__ = ["clopper_pearson", "step_table", "step_texts"]

_POINT = 0.5


def step_texts(text: str, steps: int) -> list[str]:
    """Split what an LLM wrote into its steps at blank lines.

    Parameters
    ----------
    text : str
        What it wrote.
    steps : int
        Steps T that the PRM was given. Where the text does not fall into as many, all of it is the last one, and
        those before are empty.
    """
    found = [part.strip("\n") for part in text.split("\n\n") if part.strip()]
    return found if len(found) == steps else [*[""] * (steps - 1), text][:steps]


def clopper_pearson(successes: ArrayLike, follow_ups: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the exact 95% interval of a success probability, k successes of n (Clopper and Pearson, 1934).

    Returns
    -------
    low, high : ndarray of float64, in [0, 1]
        NaN where nothing was drawn.
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(follow_ups, dtype=np.float64)
    drawn = n > 0
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, 0.025), 0.0)
        high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 0.975), 1.0)
    return np.where(drawn, low, np.nan), np.where(drawn, high, np.nan)


def step_table(prefixes: pd.DataFrame, trajectory: int, target: float) -> pd.DataFrame:
    """Arrange the prefixes of one trajectory, a row each, with the budgets that they imply.

    Parameters
    ----------
    prefixes : DataFrame
        Of a question, as :func:`prmcal.db.queries.catalog.prefixes` gives them: a row for each prefix and level beta.
    trajectory : int
        Which trajectory.
    target : float
        Target probability C in (0, 1).

    Returns
    -------
    DataFrame
        Columns step, reward, over_long, successes, follow_ups, terminal, success with its low and high (equal to it
        where the prefix holds the final answer), calibrated (the median) with the lowest and highest level as
        band_low and band_high, and the samples needed as budget_reward, budget_calibrated, budget_band (of the lowest
        level) and budget_success. What is not known is missing.
    """
    own = prefixes[prefixes["trajectory"] == trajectory]
    table = own.drop_duplicates("step").set_index("step")[
        ["reward", "over_long", "successes", "follow_ups", "terminal"]
    ]
    rewards = own.dropna(subset=["level"]).pivot(index="step", columns="level", values="calibrated_reward")
    rewards = rewards.reindex(table.index)
    nothing = pd.Series(np.nan, index=table.index)
    table["calibrated"] = rewards.get(_POINT, nothing)
    several = len(rewards.columns) > 1
    table["band_low"] = rewards[min(rewards.columns)] if several else nothing
    table["band_high"] = rewards[max(rewards.columns)] if several else nothing
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
        table[f"budget_{name}"] = samples_needed(
            table[column].to_numpy(dtype=np.float64, na_value=np.nan), target
        )
    return table.reset_index()
