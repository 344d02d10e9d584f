"""Rules that spend samples, exact and vectorised: best-of-n, pass@n and the budget of IAS.

>>> from prmcal.rules import best_of_n, ias_budget
>>> best_of_n(np.array([[0.9, 0.2, 0.4]]), [[True, False, False]], [1, 2, 3]).round(3).tolist()
[[0.333, 0.667, 1.0]]
>>> ias_budget([0.9, 0.3, 0.01], 0.99, 64).tolist()
[2, 13, 64]
"""

import numpy as np  # noqa: F401 - the examples need it

from prmcal.registry.strategies.best_of import best_of_n, pass_at_n
from prmcal.registry.strategies.scaling import adaptive_samples as ias_budget

__all__ = ["best_of_n", "ias_budget", "pass_at_n"]
