"""Train small networks on calibration prefixes, with whole questions held out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from prmcal.arrays import Ints
from prmcal.errors import PluginFailedError

_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained.

    Attributes
    ----------
    epochs, batch_size : int
        Passes over the data, and prefixes or questions per step.
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


Batch = TypeVar("Batch")


def train(
    module: nn.Module,
    loss_of: Callable[[Batch], torch.Tensor],
    batches: Callable[[], Iterable[tuple[Batch, float]]],
    count: int,
    settings: TrainingSettings,
    held_out_loss: Callable[[], float] | None,
    report: Callable[[str], None],
) -> int:
    """Minimise a loss with AdamW.

    Parameters
    ----------
    module : Module
    loss_of : callable
        Maps a batch to its loss.
    batches : callable
        Returns the batches of an epoch in random order, each with its share in the mean loss that is reported.
    count : int
        The number of batches in an epoch.
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
    groups = [
        {"params": [each for each in module.parameters() if (each.ndim > 1) == matrix], "weight_decay": decay}
        for matrix, decay in ((True, settings.weight_decay), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs * count)
    lowest = math.inf if held_out_loss is None else held_out_loss()
    kept, weights = 0, flat_weights(module)
    started = time.monotonic()
    for epoch in range(1, settings.epochs + 1):
        module.train()
        total = 0.0
        for batch, share in batches():
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), _LARGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            total += loss.item() * share
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


def train_rows(
    module: nn.Module,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    rows: Ints,
    settings: TrainingSettings,
    held_out_loss: Callable[[], float] | None,
    report: Callable[[str], None],
) -> int:
    """Do the same as :func:`train` with batches of rows, of which `loss_of` returns the mean loss."""
    numbers = torch.from_numpy(np.asarray(rows, dtype=np.int64))

    def batches() -> Iterator[tuple[torch.Tensor, float]]:
        for batch in numbers[torch.randperm(len(numbers))].split(settings.batch_size):
            yield batch, len(batch) / len(numbers)

    count = math.ceil(len(rows) / settings.batch_size)
    return train(module, loss_of, batches, count, settings, held_out_loss, report)


def flat_weights(module: nn.Module) -> NDArray[np.float32]:
    """Return a copy of all weights of a module, in the order of its parameters."""
    flat: NDArray[np.float32] = nn.utils.parameters_to_vector(module.parameters()).detach().clone().numpy()
    return flat


def set_flat_weights(module: nn.Module, weights: NDArray[np.float32]) -> None:
    """Set all weights of a module, in the order of its parameters."""
    nn.utils.vector_to_parameters(torch.tensor(weights), module.parameters())
