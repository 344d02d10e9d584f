"""The calibrator `beta-binomial`: the head of BetaPRM on frozen hidden states (Li et al., 2026)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.calibrators.beta_regression import (
    beta_quantiles,
    fit_beta_weights,
    initial_weights,
    mean_and_size,
    negative_log_likelihood,
)
from prmcal.registry.calibrators.heads import HeadCalibrator, folds
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.contracts.plugin import Count, FiniteFromZero, FinitePositive, Seed

_DECAYS = (1.0, 0.1, 1e-2, 1e-3, 1e-4)
_LAMS = (0.0, 0.01, 0.05)
_FOLDS = 4


@dataclass(eq=False)
class BetaBinomial(HeadCalibrator):
    r"""Predict a Beta distribution of the success probability from the hidden state, fitted to k of n.

    The mean is mu = sigmoid(a l + b + w . h), for the logit l and the hidden state h at the end of the prefix. The size
    is kappa = softplus(v . (l, h) + c) + kappa_min. Then p ~ Beta(mu kappa, (1 - mu) kappa), and k of n is
    Beta-Binomial. The loss is the mean of its negative log-likelihood and of lam \|mu - k/n\| kappa, in which mu counts
    as a constant (Li et al., 2026, "Process Rewards with Learned Reliability").

    The levels are quantiles of the Beta distribution, so any level is possible. The point estimate is the mean mu.

    Attributes
    ----------
    weights_ : ndarray of shape (2, inputs + 1), float64
        The weights of mu and of kappa, and b and c in the last column.
    lam_, decay_, least_size_ : float
        The penalties and kappa_min that were used.

    Notes
    -----
    The paper trains the language model with the head. Here the model is frozen and the head is linear, so a fit takes
    seconds and no training of a model. Two differences follow: mu has a term in the hidden state, since the model
    cannot adapt its own score, and the weights of the state have a penalty.

    The spread sqrt(mu (1 - mu) / (kappa + 1)) is the spread of the success probability among prefixes that look alike.
    This spread is not the error of the fit. With n = 1, the counts say nothing about kappa, and with n = 4 very little.

    The fit ends when the likelihood hardly changes; other weights are about as good. So processors that round
    differently end at other weights. In the nano world this moved Brier scores by up to .003.
    """

    citation = "Li et al. (2026), arXiv:2605.15529"
    known_by = "code; here on frozen states"

    lam: FiniteFromZero | None = None
    """The penalty of the size, from 0; the paper's script has 0.05. With None, the likelihood of held-out calibration
    questions chooses 0, 0.01 or 0.05. Test questions are never used."""
    decay: FiniteFromZero | None = None
    """The penalty of the squared weights of the state, from 0. With None, it is chosen likewise from 1, 0.1, ...,
    0.0001."""
    kappa_min: FinitePositive = 1e-4
    """The smallest size, as in the paper's script for a text model."""
    components: Count = 256
    """States that are wider are projected to this many principal components."""
    seed: Seed = 0
    """The seed that divides the questions into 4 folds."""

    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Choose the penalties on held-out questions, and fit to all."""
        decays = _DECAYS if self.decay is None else (self.decay,)
        lams = _LAMS if self.lam is None else (self.lam,)
        selections = folds(questions, _FOLDS, self.seed)
        self.decay_, self.lam_ = float(decays[0]), float(lams[-1])
        if len(selections) > 1:
            if len(decays) > 1:
                losses = self._held_out([(decay, 0.0) for decay in decays], inputs, k, n, selections)
                self.decay_ = decays[int(np.argmin(losses))]
            if len(lams) > 1:
                losses = self._held_out([(self.decay_, lam) for lam in lams], inputs, k, n, selections)
                self.lam_ = lams[int(np.argmin(losses))]
        (self.weights_,) = self._fit(inputs, k, n, [(self.decay_, self.lam_)])
        self.least_size_ = float(self.kappa_min)

    def mean_and_quantiles(self, inputs: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
        """Return mu, of shape (rows,), and the quantiles of the Beta distributions, of shape (rows, levels)."""
        mean, size = mean_and_size(self.weights_, self.least_size_, inputs)
        return mean, beta_quantiles(mean, size, levels)

    def mean_and_size(self, features: HiddenStates) -> tuple[Floats, Floats]:
        """Return mu in [0, 1] and kappa above 0 of each prefix, each of shape (rows,)."""
        return mean_and_size(self.weights_, self.least_size_, self.read(features))

    def _held_out(
        self, penalties: Sequence[tuple[float, float]], inputs: Floats, k: Ints, n: Ints, selections: Sequence[Bools]
    ) -> Floats:
        """The sum of the losses of held-out prefixes for each pair of decay and lam."""
        losses = np.zeros(len(penalties))
        for number, held_out in enumerate(selections, 1):
            fits = self._fit(inputs[~held_out], k[~held_out], n[~held_out], penalties)
            for index, weights in enumerate(fits):
                mean, size = mean_and_size(weights, self.kappa_min, inputs[held_out])
                losses[index] += negative_log_likelihood(mean, size, k[held_out], n[held_out]).sum()
            self.support.report(f"choosing penalties, fold {number} of {len(selections)}")
        return losses

    def _fit(self, inputs: Floats, k: Ints, n: Ints, penalties: Sequence[tuple[float, float]]) -> list[Floats]:
        """Fit with each pair of decay and lam. Each fit begins at the one before, so large penalties come first."""
        start = initial_weights(inputs.shape[1])
        fits = [start]
        for decay, lam in penalties:
            fits.append(fit_beta_weights(inputs, k, n, start, self.kappa_min, decay, lam, fits[-1]))
        return fits[1:]
