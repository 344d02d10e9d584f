"""The calibrator `beta-binomial-lora`: BetaPRM, in which the PRM itself is fine-tuned (Li et al., 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from prmcal.arrays import Floats, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora, Quantiles
from prmcal.registry.contracts.calibrator import ScoredPrefixes
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import FiniteFromZero, FinitePositive

if TYPE_CHECKING:
    import torch

    from prmcal.registry.calibrators.lora.model import QuantileRewardModel
    from prmcal.registry.prms.transformers import TransformersPRM

_FIRST_SIZE = 4.0
_SHIFT = float(np.log(np.expm1(_FIRST_SIZE)))


@dataclass(eq=False)
class BetaBinomialLora(QuantileLora):
    r"""Fine-tune the PRM by LoRA to predict a Beta distribution of the success probability, fitted to k of n.

    The head gets two outputs. The sigmoid of the first is the mean mu, which is the PRM's own reward before training.
    The second is s, which is 0 before training. The size is kappa = softplus(s + ln(e^4 - 1)) + kappa_min, so it begins
    at 4. The loss is the mean of the negative Beta-Binomial log-likelihood of k of n and of lam \|mu - k/n\| kappa, in
    which mu counts as a constant (Li et al., 2026, "Process Rewards with Learned Reliability"). ``beta-binomial`` fits
    the same law in seconds, on hidden states of a PRM that is not changed.

    The levels are quantiles of the Beta distribution, so any level can be asked for. **The point estimate is the
    median**, not the mean mu.

    Parameters
    ----------
    lam : float, default 0.05
        The penalty of the size, from 0, as in the paper's script. It is not chosen on held-out questions, since that
        would take several times the training.
    kappa_min : float, default 1e-4
        The smallest size, as in the paper's script for a text model.
    rank, alpha, dropout, layers, target_modules, epochs, learning_rate, batch_size, seed, head, batches
        As in ``quantile-lora``.

    Notes
    -----
    The paper trains all weights of a language model on 400,000 trajectories, and the head of the size ten times as fast
    as the rest. Here low-rank updates are trained, on the calibration questions, at one learning rate. The result
    cannot be exported as a checkpoint, since a checkpoint has rewards as its outputs.
    """

    citation = "Li et al. (2026), arXiv:2605.15529"
    known_by = "code; here with LoRA"
    any_level = True
    _what = "A LoRA adapter that makes a process reward model predict a Beta distribution of the success probability"

    lam: FiniteFromZero = 0.05
    kappa_min: FinitePositive = 1e-4
    quantiles: Quantiles = field(default=(0.1, 0.5, 0.9), init=False)
    loss: Literal["quantile", "mse"] = field(default="quantile", init=False)

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Train an adapter on k of n; see :meth:`prmcal.Calibrator.fit`."""
        from prmcal.registry.calibrators.beta_binomial import negative_log_likelihood
        from prmcal.registry.calibrators.lora.fitting import beta_binomial_loss

        self.check_calibration_data(features, k, n)

        def loss(outputs: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            from torch.nn.functional import softplus

            log_odds, size = outputs.double().unbind(-1)
            return beta_binomial_loss(
                log_odds.sigmoid(), softplus(size + _SHIFT) + self.kappa_min, counts, self.lam
            )

        self._train(features, k, n, np.stack([k, n], axis=1).astype(np.float64), loss)
        before = np.stack([features.logit, np.zeros(len(k))], axis=1)
        for name, outputs in (("first", before), ("final", self._forward(features))):
            mean, size = self._mean_and_size(outputs)
            self.card_[f"{name}_loss"] = float(negative_log_likelihood(mean, size, k, n).mean())
        return self

    def predict_at(self, features: ScoredPrefixes, levels: Sequence[float]) -> Floats:
        """Return quantiles at any levels; see :meth:`prmcal.Calibrator.predict_at`."""
        from prmcal.registry.calibrators.beta_binomial import beta_quantiles

        return beta_quantiles(*self.mean_and_size(features), levels)

    def mean_and_size(self, features: ScoredPrefixes) -> tuple[Floats, Floats]:
        """Return mu in [0, 1] and kappa above 0 of each prefix, each of shape (rows,)."""
        return self._mean_and_size(self._forward(features))

    def export(self, prm: PRM, folder: Path, level: float = 0.5) -> None:
        """Raise PluginFailedError: the outputs are not rewards."""
        raise PluginFailedError(
            "its head predicts a Beta distribution, and the outputs of a checkpoint are rewards. Choose quantile-lora."
        )

    @property
    def _outputs(self) -> int:
        return 2

    def _base(self, prm: TransformersPRM) -> QuantileRewardModel:
        """The PRM with two outputs, of which the second does not depend on the prefix."""
        import torch

        model = super()._base(prm)
        last = model.score.layers[-1]
        with torch.no_grad():
            for weights in last.parameters():
                weights[model.score.outputs :] = 0
        return model

    def _rewards(self, log_odds: Floats) -> Floats:
        from prmcal.registry.calibrators.beta_binomial import beta_quantiles

        return beta_quantiles(*self._mean_and_size(log_odds), self.levels)

    def _mean_and_size(self, outputs: Floats) -> tuple[Floats, Floats]:
        from scipy.special import expit

        return expit(outputs[:, 0]), np.logaddexp(0, outputs[:, 1] + _SHIFT) + self.kappa_min
