"""The losses of the fine-tuning: the paper's weighted quantile loss, and the squared error."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["quantile_loss", "squared_loss"]


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
