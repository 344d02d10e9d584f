"""Calibrators of the logit with one to three parameters: `platt`, `beta` and `temperature`."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.scores import CurveCalibrator

_PENALTY = 1e-6
_MOST_STEPS = 200
_MOST_HALVINGS = 60
_DECREMENT = 1e-20
"""The fit ends when a Newton step would lower the loss by less than about this."""

_IDENTITY = np.array([1.0, 1.0, 0.0])
"""The weights of the calibration map that changes nothing."""
_HOTTEST = float(np.log(100.0))
_POINTS = 401


def fit_logistic(
    inputs: Floats, k: Floats | Ints, n: Floats | Ints, centre: Floats, penalty: float = _PENALTY
) -> tuple[Floats, float]:
    r"""Maximise the likelihood of k successes of n with success probability sigmoid(inputs . weights).

    scikit-learn's LogisticRegression is not used: its penalty pulls towards 0, it refuses outcomes that are all equal,
    and its result is about 1e-10 off.

    The loss is the negative log-likelihood in nats plus `penalty` times the squared distance of the weights from
    `centre`, where the search begins. The second term decides where the likelihood has no single maximum, for instance
    if all follow-ups are right, or if there is only one prefix. Otherwise it changes the weights by about penalty /
    (number of follow-ups).

    Inputs, of shape (rows, inputs), are finite. A constant is an input like every other. k and n have the shape
    (rows,). The result is the weights, of the shape (inputs,) of `centre`, and the lowest value of the loss.
    """

    def loss(weights: Floats) -> float:
        log_odds = inputs @ weights
        likelihood = k * np.logaddexp(0, -log_odds) + (n - k) * np.logaddexp(0, log_odds)
        return float(likelihood.sum() + penalty * np.sum((weights - centre) ** 2))

    weights, lowest = centre, loss(centre)
    for _ in range(_MOST_STEPS):
        rewards = scipy.special.expit(inputs @ weights)
        gradient = inputs.T @ (n * rewards - k) + 2 * penalty * (weights - centre)
        curvature = (inputs.T * (n * rewards * (1 - rewards))) @ inputs
        step = np.linalg.solve(curvature + 2 * penalty * np.eye(len(weights)), gradient)
        if gradient @ step <= _DECREMENT:
            break
        # The loss is convex, so a short enough step lowers it, up to rounding.
        for halving in range(_MOST_HALVINGS):
            new_weights = weights - step * 0.5**halving
            new_loss = loss(new_weights)
            if new_loss < lowest:
                break
        else:
            break
        weights, lowest = new_weights, new_loss
    return weights, lowest


class Platt(CurveCalibrator):
    """Map the logit to sigmoid(slope * logit + offset), with slope >= 0 and offset of the largest likelihood.

    Every follow-up has the same weight. Unlike ``temperature``, it can lower all rewards, so it also repairs a PRM that
    overestimates by the same log-odds everywhere. Platt (1999) replaces the labels 0 and 1 by values inside, since he
    has one label for each point. Here the counts k of n themselves say how certain a label is, so they are not changed.

    Attributes
    ----------
    slope_, offset_ : float
        A slope below 0 would reverse the order of the rewards. Where the likelihood has no single maximum, for instance
        if all follow-ups are right, a weak pull towards 1 and 0 decides.
    """

    plugin_name = "platt"
    citation = "Platt (1999), Advances in Large Margin Classifiers"
    reads = "logit"

    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Compute slope and offset by Newton's method."""
        inputs = np.stack([features, np.ones_like(features)], axis=1)
        (slope, offset), _ = fit_logistic(inputs, k, n, np.array([1.0, 0.0]))
        if slope < 0:  # The loss is convex, so the best slope that is not below 0 is 0.
            slope, (offset,) = 0.0, fit_logistic(inputs[:, 1:], k, n, np.zeros(1))[0]
        self.slope_, self.offset_ = float(slope), float(offset)

    def curve(self, features: Floats) -> Floats:
        """Return sigmoid(slope * logit + offset)."""
        return np.asarray(scipy.special.expit(self.slope_ * features + self.offset_), dtype=np.float64)


class Beta(CurveCalibrator):
    """Map the reward s to sigmoid(a ln s - b ln(1 - s) + c), with a >= 0 and b >= 0 of the largest likelihood.

    This is equation 3 of Kull et al. (2017). The map is exact if the rewards of right and of wrong follow-ups have beta
    distributions. It bends the two ends of the scale independently, and ``platt`` (a = b) cannot. Every follow-up has
    the same weight.

    The logarithms are computed from the PRM's logit. So rewards that are rounded to 0 or 1 are not clipped.

    Attributes
    ----------
    a_, b_, c_ : float
        Of the maps with a >= 0 and b >= 0, this is the one with the largest likelihood. Kull et al. fit without the
        bounds, and fit again without an input whose weight is negative. The result is the same if this leaves no
        negative weight.
    """

    plugin_name = "beta"
    citation = "Kull et al. (2017), AISTATS"
    reads = "logit"

    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Fit with every choice of the inputs, and keep the best fit without a negative weight."""
        inputs = _inputs(features)
        best, lowest = np.zeros(3), np.inf
        # The likelihood is concave. Where it is largest within the bounds, some of a and b are 0, and it is largest
        # without bounds over the others.
        for columns in ([0, 1, 2], [1, 2], [0, 2], [2]):
            weights, loss = fit_logistic(inputs[:, columns], k, n, _IDENTITY[columns])
            full_weights = np.zeros(3)
            full_weights[columns] = weights
            if np.all(full_weights[:2] >= 0) and loss < lowest:
                best, lowest = full_weights, loss
        self.a_, self.b_, self.c_ = map(float, best)

    def curve(self, features: Floats) -> Floats:
        """Return sigmoid(a ln s - b ln(1 - s) + c)."""
        # Not a product of matrices, which can round differently for one row and for many.
        rises, falls, _ = _inputs(features).T
        return np.asarray(scipy.special.expit(self.a_ * rises + self.b_ * falls + self.c_), dtype=np.float64)


def _inputs(logits: Floats) -> Floats:
    """Return ln s, -ln(1 - s) and 1, of shape (rows, 3)."""
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), np.ones_like(logits)], axis=1)


@dataclass(eq=False)
class Temperature(CurveCalibrator):
    """Divide the logit by one temperature T > 0: the calibrated reward is sigmoid(logit / T).

    T is the best one for the outcomes of the follow-ups of the calibration prefixes. Every follow-up has the same
    weight. scikit-learn fits it inside of a CalibratedClassifierCV only, and ends at other last digits.

    Attributes
    ----------
    temperature_ : float
        T in [0.01, 100]. It is an end of this range if the loss has no minimum inside, for example if all follow-ups
        are right. The temperature is 1 if all logits are 0.
    """

    plugin_name = "temperature"
    citation = "Guo et al. (2017), ICML, arXiv:1706.04599"
    reads = "logit"

    loss: Literal["likelihood", "brier"] = "likelihood"
    """``likelihood`` maximises the likelihood of the outcomes, as Guo et al. do. ``brier`` minimises the Brier score,
    the paper's example of a calibration metric to choose T (Appendix C)."""

    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Choose T for k of n successes."""
        choose = _most_likely if self.loss == "likelihood" else _least_brier
        self.temperature_ = float(np.exp(choose(features, k, n))) if np.any(features) else 1.0

    def curve(self, features: Floats) -> Floats:
        """Return sigmoid(logit / T)."""
        return np.asarray(scipy.special.expit(features / self.temperature_), dtype=np.float64)


def _most_likely(logits: Floats, k: Ints, n: Ints) -> float:
    """The log of the temperature with the largest binomial likelihood."""

    # The negative log-likelihood is convex in 1/T. This is its derivative by 1/T, which is 0 at the minimum.
    def slope(log_temperature: float) -> float:
        return float(np.sum(logits * (n * scipy.special.expit(logits / np.exp(log_temperature)) - k)))

    if slope(_HOTTEST) >= 0:
        return _HOTTEST
    if slope(-_HOTTEST) <= 0:
        return -_HOTTEST
    return float(scipy.optimize.brentq(slope, -_HOTTEST, _HOTTEST, xtol=1e-12))


def _least_brier(logits: Floats, k: Ints, n: Ints) -> float:
    """The log of the temperature with the lowest Brier score.

    The score can have several minima. The search begins at the best of many temperatures.
    """

    def score(log_temperature: float) -> float:
        return float(np.sum(n * (scipy.special.expit(logits / np.exp(log_temperature)) - k / n) ** 2))

    def slope(log_temperature: float) -> float:  # Half of the derivative of the score by 1/T.
        rewards = scipy.special.expit(logits / np.exp(log_temperature))
        return float(np.sum(logits * (n * rewards - k) * rewards * (1 - rewards)))

    log_temperatures = np.linspace(-_HOTTEST, _HOTTEST, _POINTS)
    best = int(np.argmin([score(log_temperature) for log_temperature in log_temperatures]))
    colder, hotter = float(log_temperatures[max(best - 1, 0)]), float(log_temperatures[min(best + 1, _POINTS - 1)])
    if slope(colder) > 0 > slope(hotter):
        return float(scipy.optimize.brentq(slope, colder, hotter, xtol=1e-12))
    return float(log_temperatures[best])
