"""The losses of the fine-tuning: the weighted quantile loss, the squared error, and the Beta-Binomial likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["beta_binomial_loss", "quantile_loss", "squared_loss"]


def quantile_loss(predicted: torch.Tensor, target: torch.Tensor, levels: Sequence[float]) -> torch.Tensor:
    """Return the weighted quantile loss (wQL, section 3.2 of the paper) of each row.

    Parameters
    ----------
    predicted : tensor of shape (..., levels)
        Predicted quantiles of the success probability, in [0, 1].
    target : tensor of shape (...)
        Measured success rate k/n.
    levels : sequence of float
        The quantile levels beta.

    Returns
    -------
    tensor of shape (...)
        The mean over levels of ``beta max(0, y - r) + (1 - beta) max(0, r - y)``, for the prediction r and the target
        y. Its expectation is smallest if r is the beta-quantile of y.
    """
    betas = predicted.new_tensor(tuple(levels))
    short = target[..., None] - predicted
    return torch.maximum(betas * short, (betas - 1) * short).mean(dim=-1)


def squared_loss(predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the squared error of each row, of shape (...), for predictions of shape (..., 1).

    Its expectation is smallest if the prediction is the mean of the target.
    """
    return (predicted[..., 0] - target).square()


def beta_binomial_loss(
    mean: torch.Tensor, size: torch.Tensor, counts: torch.Tensor, lam: float
) -> torch.Tensor:
    """Return the negative Beta-Binomial log-likelihood of each row in nats, with the penalty of the size.

    Parameters
    ----------
    mean, size : tensor of shape (...), float64
        Of the Beta distribution of the success probability.
    counts : tensor of shape (..., 2)
        k successes of n follow-ups. The loss of 0 of 0 is the penalty.
    lam : float
        The factor of the penalty ``|mean - k/n| size``, in which the mean counts as a constant.

    Returns
    -------
    tensor of shape (...)
        Without ``ln C(n, k)``, as in :func:`prmcal.registry.calibrators.heads.beta_law.negative_log_likelihood`.
    """
    k, n = counts.double().unbind(-1)
    a, b = mean * size + 1e-6, (1 - mean) * size + 1e-6
    before = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    after = torch.lgamma(k + a) + torch.lgamma(n - k + b) - torch.lgamma(n + a + b)
    residual = (mean.detach() - k / n.clamp(min=1)).abs()
    return before - after + lam * residual * size
