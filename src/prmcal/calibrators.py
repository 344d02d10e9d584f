"""Calibrators of scores in arrays, as estimators of scikit-learn: no grid, no model, no torch.

>>> from prmcal.calibrators import Isotonic
>>> Isotonic().fit([0.2, 0.4, 0.6, 0.8], k=[0, 0, 2, 1], n=4).predict([0.3, 0.9])
array([0.   , 0.375])

`fit` takes `scores`, of shape (rows,) or (rows, 1): predicted probabilities of success in [0, 1], or log-odds if the
calibrator has ``logit=True``. `k`, of shape (rows,), are the successes of each row in `n` tries. By default `n` is 1,
and `k` are labels of 0 and 1. ``clone``, pipelines and ``cross_val_predict`` of scikit-learn work. Give
``cross_val_predict`` groups and a splitter such as GroupKFold, so that rows of one question stay together.

The classes are the plugins of a grid. Calibrators that read hidden states or fine-tune a PRM need its model, so they
are in grids only.
"""

from prmcal.registry.calibrators.conformal import Conformal
from prmcal.registry.calibrators.logit import Beta, Platt, Temperature
from prmcal.registry.calibrators.reward import Histogram, Isotonic

__all__ = ["Beta", "Conformal", "Histogram", "Isotonic", "Platt", "Temperature"]
