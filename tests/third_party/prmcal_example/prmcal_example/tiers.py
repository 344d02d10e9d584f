"""A strategy with two budgets: a few samples where the calibrated reward calls a question easy, all elsewhere."""

from typing import Annotated

import numpy as np
from pydantic import Field

from prmcal import Answered, PoolStrategy
from prmcal.registry.strategies.best_of import best_of_n


class TwoTiers(PoolStrategy):
    """Best-of-n with n of two sizes."""

    reads = ("scores", "rewards")

    def __init__(
        self, easy: Annotated[float, Field(gt=0, le=1)] = 0.9, few: Annotated[int, Field(ge=1)] = 4
    ) -> None:
        self.easy = easy
        self.few = few

    def answer(self, pool, setting):
        few = min(self.few, setting.samples)
        both = best_of_n(pool.scores, pool.correct, np.array([few, setting.samples]))
        easy = pool.rewards >= self.easy  # false for a question that the PRM could not read (NaN)
        return Answered(
            accuracy=np.where(easy, both[:, 0], both[:, 1]),
            samples=np.where(easy, float(few), float(setting.samples)),
        )
