"""Train an adapter on calibration prefixes and their success rates, by one of three losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model_state_dict

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.lora.batches import (
    Packing,
    collate,
    pack,
    plan_batches,
    token_ids,
    trajectories_of,
)
from prmcal.registry.calibrators.lora.model import (
    ADAPTER,
    QuantileRewardModel,
    adapted,
    lora_config,
    recompute_if_large,
)
from prmcal.registry.calibrators.lora.training import Parts, Schedule, isolated, train
from prmcal.registry.contracts.calibrator import FitSupport
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.prms.transformers import TransformersPRM


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
        Without ``ln C(n, k)``, as in :func:`prmcal.registry.calibrators.beta_binomial.negative_log_likelihood`.
    """
    k, n = counts.double().unbind(-1)
    a, b = mean * size + 1e-6, (1 - mean) * size + 1e-6
    before = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    after = torch.lgamma(k + a) + torch.lgamma(n - k + b) - torch.lgamma(n + a + b)
    residual = (mean.detach() - k / n.clamp(min=1)).abs()
    return before - after + lam * residual * size


RowLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def fit_adapter(
    prm: TransformersPRM,
    base: QuantileRewardModel,
    prefixes: Sequence[Prefix],
    targets: Floats,
    loss: RowLoss,
    settings: Mapping[str, Any],
    support: FitSupport,
    fit: str,
) -> tuple[dict[str, torch.Tensor], LoraConfig, int]:
    """Train an adapter.

    Parameters
    ----------
    prm : TransformersPRM
        It is not changed.
    base : QuantileRewardModel
        The PRM with the outputs to train.
    prefixes : sequence of Prefix
    targets : ndarray of float64, shape (rows,) or (rows, numbers)
        What the loss compares the outputs of each prefix with.
    loss : callable
        Maps log-odds, of shape (..., outputs), and targets to losses of shape (...).
    settings : mapping
        The calibrator's arguments.
    support : FitSupport
    fit : str
        A hash of everything above. Checkpoints of other fits are ignored.

    Returns
    -------
    adapter : dict of str to tensor
        The trained weights on the CPU.
    config : LoraConfig
    steps : int
        The number of training batches.
    """
    sequences, packing = token_ids(prm, prefixes), Packing.of(prm)
    whole = settings["batches"] == "trajectories"
    units = trajectories_of(prefixes) if whole else list(np.arange(len(prefixes))[:, None])
    epochs = plan_batches(units, settings["batch_size"], settings["epochs"], settings["seed"])
    batches = [batch for epoch in epochs for batch in epoch]
    schedule = Schedule(tuple(map(len, epochs)), settings["learning_rate"], settings["seed"])
    recompute_if_large(base)
    config = lora_config(
        base, *(settings[name] for name in ("rank", "alpha", "dropout", "layers", "target_modules", "head"))
    )
    with isolated(settings["seed"], base.device):
        model = adapted(base, config)
        train(
            model,
            prm.tokenizer,
            lambda number: batch_parts(batches[number], prefixes, sequences, targets, packing),
            loss,
            schedule,
            support,
            fit,
        )
        trained = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    return {name: weight.detach().cpu().clone() for name, weight in trained.items()}, config, schedule.steps


def batch_parts(
    rows: Ints,
    prefixes: Sequence[Prefix],
    sequences: Sequence[Sequence[int]],
    targets: Floats,
    packing: Packing,
) -> Parts:
    """Return the forward passes of a batch. Each prefix has the weight one over the batch size."""
    parts: Parts = []
    chosen = [sequences[row] for row in rows]
    for trees in pack([prefixes[row] for row in rows], chosen, packing):
        batch = collate(chosen, trees, packing)
        target = np.zeros((*batch.taken.shape, *targets.shape[1:]), dtype=np.float32)
        target[batch.taken] = targets[rows[batch.rows]]
        weight = np.where(batch.taken, 1.0 / len(rows), 0.0).astype(np.float32)
        parts.append(
            {"inputs": batch.inputs, "target": torch.from_numpy(target), "weight": torch.from_numpy(weight)}
        )
    return parts


def row_loss(name: str, levels: Sequence[float]) -> RowLoss:
    """Return the loss function of log-odds for each row, by its name."""
    loss = _reward_loss(name, levels)
    return lambda outputs, target: loss(torch.sigmoid(outputs), target)


def mean_loss(predicted: Floats, rates: Floats, levels: Sequence[float], name: str) -> float:
    """Return the mean loss of predictions of shape (rows, levels)."""
    return float(_reward_loss(name, levels)(torch.from_numpy(predicted), torch.from_numpy(rates)).mean())


def _reward_loss(name: str, levels: Sequence[float]) -> RowLoss:
    return squared_loss if name == "mse" else partial(quantile_loss, levels=levels)
