"""An alarm for questions that are no longer like the calibration questions.

A calibrated reward, a promised risk and a quantile hold as long as new questions are drawn like the calibration
questions. Then old and new questions together are in random order. A conformal test martingale bets against this,
question by question.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence

import numpy as np

from prmcal.arrays import Floats

FALSE_ALARMS = 0.05
"""The largest probability of an alarm if nothing has changed, over all questions that will ever come."""
_BETS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
_CHANGES = 0.01


class ShiftTest:
    """The evidence that one value of the questions has changed (the Simple Jumper of Vovk et al., 2021).

    A new value has a conformal p-value: its rank among the calibration questions and all new ones so far, with ties
    broken by chance. As long as the order is random, the p-values are independent and uniform, and the capital of a
    gambler who multiplies it by 1 + bet (p - 1/2) reaches c with a probability of at most 1 / c (Ville). Five gamblers
    bet on lower or higher values. At each question, a hundredth of the capital changes its bet.

    `calibration_values` are the values of the calibration questions, of shape (questions,). NaN is left out.
    """

    def __init__(self, calibration_values: Floats) -> None:
        self._values: list[float] = sorted(calibration_values[~np.isnan(calibration_values)].tolist())
        self._capital = np.full(len(_BETS), 1 / len(_BETS))
        self._random = np.random.default_rng(0)
        self._ranks = 0.0
        self.evidence = 1.0
        """The largest capital so far."""

    def add(self, value: float) -> None:
        """Take the value of a new question. NaN is left out."""
        if np.isnan(value):
            return
        insort(self._values, value)
        below, upto = bisect_left(self._values, value), bisect_right(self._values, value)
        rank = (below + self._random.random() * (upto - below)) / len(self._values) - 0.5
        self._ranks += rank
        mixed = (1 - _CHANGES) * self._capital + _CHANGES * self._capital.mean()
        self._capital = mixed * (1 + _BETS * rank)
        self.evidence = max(self.evidence, float(self._capital.sum()))

    @property
    def direction(self) -> str:
        """Return if the new values are mostly ``higher`` or ``lower``."""
        return "higher" if self._ranks > 0 else "lower"


class ShiftAlarm:
    """An alarm for several values of the questions.

    Each of k values has a :class:`ShiftTest`. The alarm is raised when the capital of one value reaches k / 0.05, so a
    false alarm has a probability of at most 5% however many questions come. It stays raised.

    `calibration_values` has the values of the calibration questions by name, each of shape (questions,).
    """

    def __init__(self, calibration_values: Mapping[str, Floats]) -> None:
        self._tests = {name: ShiftTest(values) for name, values in calibration_values.items()}
        self._questions = 0
        self.message = ""
        """The alarm as sentences; empty as long as there is none."""

    def add_all(self, questions: Sequence[Mapping[str, float]]) -> None:
        """Take the values of the questions of a file, in a random order: a file may be sorted by difficulty."""
        for number in np.random.default_rng(0).permutation(len(questions)):
            self.add(questions[number])

    def add(self, values: Mapping[str, float]) -> None:
        """Take the values of a new question. A value whose name the calibration questions lack is left out."""
        self._questions += 1
        for name in values.keys() & self._tests.keys():
            self._tests[name].add(values[name])
        enough = len(self._tests) / FALSE_ALARMS
        raised = [name for name, test in self._tests.items() if test.evidence >= enough]
        if raised and not self.message:
            what = " and ".join(f"the {name} is {self._tests[name].direction}" for name in raised)
            self.message = (
                f"An alarm by {self._questions} new questions: {what} than for the calibration questions. Calibrated "
                "rewards and promises may not hold for such questions. Calibrate with questions of this kind."
            )
