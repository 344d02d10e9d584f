"""Platt scaling (Platt, 1999): a logistic function of the logit."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from prmcal import Calibrator


class Platt(Calibrator):
    """Slope and offset that make the successes likeliest, one more of each outcome keeping them finite."""

    reads = "logit"

    def fit(self, logit, k, n):
        rate = (k.sum() + 1) / (n.sum() + 2)
        successes, failures = k + rate / len(k), n - k + (1 - rate) / len(k)

        def loss(parameters):
            scaled = parameters[0] * logit + parameters[1]
            nats = successes * log_expit(scaled) + failures * log_expit(-scaled)
            return -nats.sum() / n.sum() + 1e-4 * parameters[0] ** 2

        self.slope_, self.offset_ = minimize(loss, np.array([1.0, 0.0])).x.tolist()
        return self

    def predict(self, logit):
        self.check_fitted()
        return expit(self.slope_ * logit + self.offset_)[:, None]
