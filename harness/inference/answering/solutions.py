"""What is said of a question in the end, by strategies that draw whole trajectories and by searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference.answering.asking import Asking
from prmcal.harness.inference.basis.results import Familiarity, Solution, Spent
from prmcal.harness.inference.basis.rewarding import Rewarded, first_terminal, median_place

__all__ = ["Given", "failed_solution", "given_answer", "reward_band"]


@dataclass(frozen=True, slots=True)
class Given:
    """The answer that is given.

    Attributes
    ----------
    answer : str or None
    withheld : bool
        Whether there is an answer that is not given.
    why_not : str
        Why no answer is given, as a sentence after a space; empty if one is.
    """

    answer: str | None
    withheld: bool = False
    why_not: str = ""


def given_answer(
    asking: Asking, answer: str | None, probability: float | None, by_strategy: bool = False
) -> Given:
    """Return the answer that is given, and why not if there is none.

    Parameters
    ----------
    asking : Asking
    answer : str or None
        The final answer of the chosen trajectory.
    probability : float or None
    by_strategy : bool
        Whether the strategy withholds it.
    """
    if answer is None:
        return Given(None, why_not=" The chosen trajectory has no final answer.")
    bound = asking.abstain_below
    if bound is not None and (probability is None or probability < bound):
        return Given(None, True, f" The answer is withheld: its probability is below {bound:g}.")
    if by_strategy:
        return Given(None, True, f" The strategy '{asking.name}' withholds the answer.")
    return Given(answer)


def reward_band(
    rewarded: Rewarded, steps: Sequence[str], levels: tuple[float, ...]
) -> tuple[float | None, float | None, float | None]:
    """Return the median of the last prefix without a final answer, and its lowest and highest quantile.

    The quantiles are None if there is one level only. All are None if the prefix is too long for the PRM.
    """
    quantiles = rewarded.quantiles[first_terminal(steps) - 1]
    if not np.isfinite(quantiles).all():
        return None, None, None
    middle = float(quantiles[median_place(levels)])
    return (middle, None, None) if len(levels) == 1 else (middle, float(quantiles[0]), float(quantiles[-1]))


def failed_solution(question: str, error: PrmcalError, spent: Spent | None = None) -> Solution:
    """Return what is said of a question that failed."""
    return Solution(
        question=question if isinstance(question, str) else "",
        answer=None,
        probability=None,
        low=None,
        high=None,
        basis="reward",
        abstained=False,
        stopped="failed",
        reason="An error ended the question.",
        spent=spent or Spent(),
        rewards=None,
        trajectories=(),
        chosen=None,
        familiarity=Familiarity(True),
        error=str(error),
    )
