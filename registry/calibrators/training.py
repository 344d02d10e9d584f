"""Train small networks on calibration prefixes, with whole questions held out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from prmcal.errors import PluginFailedError

_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained.

    Attributes
    ----------
    epochs, batch_size : int
        Passes over the prefixes, and prefixes per step.
    learning_rate, weight_decay : float
        Of AdamW. The learning rate decays to 0 along a cosine. Only matrices have weight decay.
    what : str
        The name of the network in progress and errors.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    what: str


@contextmanager
def one_thread(seed: int) -> Iterator[None]:
    """Seed torch's random numbers and use one CPU thread; restore both at the end.

    Sums of floating-point numbers depend on the number of threads. With one thread, a fit is reproducible to the bit.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def train(
    module: nn.Module,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    rows: NDArray[np.int64],
    settings: TrainingSettings,
    held_out_loss: Callable[[], float] | None,
    report: Callable[[str], None],
) -> int:
    """Minimise a mean loss over rows with AdamW, in batches in random order.

    Parameters
    ----------
    module : Module
    loss_of : callable
        Maps the numbers of some rows, int64, to their mean loss.
    rows : ndarray of int64
        The numbers of the rows to train on.
    settings : TrainingSettings
    held_out_loss : callable or None
        The loss on held-out questions, without gradients. The epoch with the lowest one is kept. With None, the last
        epoch is kept.
    report : callable
        Takes a line of progress after each epoch.

    Returns
    -------
    int
        The epoch whose weights are kept; 0 means the start.

    Raises
    ------
    PluginFailedError
        If the loss becomes NaN or infinite.
    """
    matrices = [each for each in module.parameters() if each.ndim > 1]
    others = [each for each in module.parameters() if each.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    batches = math.ceil(len(rows) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs * batches)
    numbers = torch.from_numpy(np.asarray(rows, dtype=np.int64))
    lowest = math.inf if held_out_loss is None else held_out_loss()
    kept, weights = 0, flat_weights(module)
    started = time.monotonic()
    for epoch in range(1, settings.epochs + 1):
        module.train()
        total = 0.0
        for batch in numbers[torch.randperm(len(numbers))].split(settings.batch_size):
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), _LARGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch) / len(numbers)
        module.eval()
        if not math.isfinite(total) or not all(bool(each.isfinite().all()) for each in module.parameters()):
            raise PluginFailedError(
                f"The loss of the {settings.what} became NaN in epoch {epoch} of {settings.epochs}. Lower the "
                f"learning rate ({settings.learning_rate:g})."
            )
        reached = -math.inf if held_out_loss is None else held_out_loss()
        if reached < lowest or held_out_loss is None:
            lowest, kept, weights = reached, epoch, flat_weights(module)
        left = (time.monotonic() - started) / epoch * (settings.epochs - epoch)
        report(f"{settings.what}, epoch {epoch} of {settings.epochs}, loss {total:.4f}, {left:.0f} s left")
    set_flat_weights(module, weights)
    return kept


def flat_weights(module: nn.Module) -> NDArray[np.float32]:
    """Return a copy of all weights of a module, in the order of its parameters."""
    flat: NDArray[np.float32] = nn.utils.parameters_to_vector(module.parameters()).detach().clone().numpy()
    return flat


def set_flat_weights(module: nn.Module, weights: NDArray[np.float32]) -> None:
    """Set all weights of a module, in the order of its parameters."""
    nn.utils.vector_to_parameters(torch.tensor(weights), module.parameters())
