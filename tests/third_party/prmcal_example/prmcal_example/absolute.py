"""A metric in a package of its own."""

import numpy as np

from prmcal import Metric


class AbsoluteError(Metric):
    """Mean absolute difference between reward and success rate."""

    title, better = "Absolute error", "lower"

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)
