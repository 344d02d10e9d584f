"""The training of small networks on calibration prefixes, and the networks of `ensemble` and `monotone-quantile`."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from prmcal.arrays import Bools, Floats32, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.calibrator import FitSupport

_LARGEST_GRADIENT = 1.0
Batch = TypeVar("Batch")
Module = TypeVar("Module", bound=nn.Module)
INTERVALS = 32
"""The levels 0, 1/32, ..., 1 are the knots of the quantile function."""

_FIRST_SPREAD = 4.0
_DRAWS = 8
"""Levels that the pinball loss is computed at for each row of a batch."""


class Trained(Protocol):
    """A calibrator that trains a network with AdamW. The learning rate decays to 0 along a cosine.

    A step has `batch_size` prefixes or questions. Only matrices have weight decay. A share of the questions is
    held out; the seed decides which.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    held_out: float
    seed: int
    support: FitSupport


@contextmanager
def one_thread(seed: int, on_gpu: bool = False) -> Iterator[None]:
    """Seed torch's random numbers and use one CPU thread, unless a GPU computes; restore both at the end.

    Sums of floating-point numbers depend on the number of threads. With one thread, a fit is reproducible to the bit.
    """
    threads = torch.get_num_threads()
    if not on_gpu:
        torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count())) if on_gpu else []):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def train(
    module: nn.Module,
    what: str,
    calibrator: Trained,
    loss_of: Callable[[Batch], Tensor],
    batches: Callable[[], Iterable[tuple[Batch, float]]],
    count: int,
    held_out_loss: Callable[[], float] | None,
) -> int:
    """Minimise a loss, and report the progress after each epoch. Return the epoch whose weights are kept.

    0 means the start. `what` is the name of the network in progress and errors. `loss_of` maps a batch to its loss.
    `batches` returns the `count` batches of an epoch in random order, each with its share in the reported mean loss.
    The epoch with the lowest `held_out_loss`, that on held-out questions, is kept. With None, the last epoch is kept.
    Raises a PluginFailedError if the loss becomes NaN or infinite.
    """
    epochs, rate = calibrator.epochs, calibrator.learning_rate
    groups = [
        {"params": [weights for weights in module.parameters() if (weights.ndim > 1) == matrix], "weight_decay": decay}
        for matrix, decay in ((True, calibrator.weight_decay), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * count)

    def mean_on_held_out() -> float:
        module.eval()
        with torch.no_grad():
            return -math.inf if held_out_loss is None else held_out_loss()

    lowest = math.inf if held_out_loss is None else mean_on_held_out()
    best_epoch, weights = 0, flat_weights(module)
    started = time.monotonic()
    for epoch in range(1, epochs + 1):
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
        if not math.isfinite(total) or not all(bool(weights.isfinite().all()) for weights in module.parameters()):
            raise PluginFailedError(
                f"The loss of the {what} became NaN in epoch {epoch} of {epochs}. Lower the learning rate ({rate:g})."
            )
        held_out_mean = mean_on_held_out()
        if held_out_mean < lowest or held_out_loss is None:
            lowest, best_epoch, weights = held_out_mean, epoch, flat_weights(module)
        seconds_left = (time.monotonic() - started) / epoch * (epochs - epoch)
        calibrator.support.report(f"{what}, epoch {epoch} of {epochs}, loss {total:.4f}, {seconds_left:.0f} s left")
    set_flat_weights(module, weights)
    return best_epoch


def train_rows(
    module: nn.Module,
    what: str,
    calibrator: Trained,
    loss: Callable[..., Tensor],
    data: Sequence[NDArray[Any]],
    rows: Bools,
    held_out: Bools | None = None,
) -> int:
    """Work like :func:`train`, with batches of `rows` and the mean loss of their `data`."""
    tensors = [torch.from_numpy(np.asarray(array, dtype=np.float32)) for array in data]
    numbers = torch.from_numpy(np.flatnonzero(rows))

    def loss_of(batch: Tensor) -> Tensor:
        return loss(*(tensor[batch] for tensor in tensors))

    def batches() -> Iterator[tuple[Tensor, float]]:
        for batch in numbers[torch.randperm(len(numbers))].split(calibrator.batch_size):
            yield batch, len(batch) / len(numbers)

    held_out_numbers = torch.from_numpy(np.flatnonzero(held_out)) if held_out is not None and held_out.any() else None
    loss_on_held_out = None if held_out_numbers is None else lambda: float(loss_of(held_out_numbers))
    count = math.ceil(len(numbers) / calibrator.batch_size)
    return train(module, what, calibrator, loss_of, batches, count, loss_on_held_out)


def flat_weights(module: nn.Module) -> Floats32:
    """Return a copy of all weights of a module, in the order of its parameters."""
    flat: Floats32 = nn.utils.parameters_to_vector(module.parameters()).detach().clone().numpy()
    return flat


def set_flat_weights(module: nn.Module, weights: Floats32) -> None:
    """Set all weights of a module, in the order of its parameters."""
    nn.utils.vector_to_parameters(torch.tensor(weights), module.parameters())


def with_weights(module: Module, weights: Floats32) -> Module:
    """Return a module with these weights, in float64 and in evaluation mode, as it predicts."""
    set_flat_weights(module, weights)
    return module.double().eval()


def log_odds_of_all(k: Ints, n: Ints) -> float:
    """Return the finite log-odds of the success rate of all follow-ups, which few steps would not reach."""
    return float(np.log((k.sum() + 0.5) / ((n - k).sum() + 0.5)))


class Heads(nn.Module):
    """A number of heads LayerNorm, Linear, GELU, Linear with weights of their own, computed together.

    `width` is the number of hidden units of each.
    """

    def __init__(self, heads: int, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.gain = nn.Parameter(torch.ones(heads, 1, inputs))
        self.shift = nn.Parameter(torch.zeros(heads, 1, inputs))
        self.first_weights = nn.Parameter(_uniform(inputs, heads, inputs, width))
        self.first_bias = nn.Parameter(_uniform(inputs, heads, 1, width))
        self.last_weights = nn.Parameter(_uniform(width, heads, width, 1))
        self.last_bias = nn.Parameter(_uniform(width, heads, 1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the log-odds of each head, of shape (rows, heads), for inputs of shape (rows, inputs)."""
        normal = functional.layer_norm(inputs, (self.inputs,)) * self.gain + self.shift
        hidden = functional.gelu(torch.baddbmm(self.first_bias, normal, self.first_weights))
        log_odds: Tensor = torch.baddbmm(self.last_bias, hidden, self.last_weights)[..., 0].T
        return log_odds

    def loss(self, inputs: Tensor, k: Tensor, n: Tensor, is_seen: Tensor) -> Tensor:
        """Return the sum over heads of the cross-entropy of k of n. `seen` is 1 where a head sees a row, else 0."""
        loss = _cross_entropy(self(inputs), k, n) * is_seen
        # The sum over heads, so that the steps of a head do not depend on the number of heads.
        return (loss.sum(0) / (is_seen * n[:, None]).sum(0).clamp(min=1)).sum()


class BeliefNetwork(nn.Module):
    """Map a state and the predictions of the heads to a weight for each head. Before training, all are equal."""

    def __init__(self, heads: int, inputs: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(inputs + heads), nn.Linear(inputs + heads, width), nn.GELU(), nn.Linear(width, heads)
        )
        for weights in self.layers[-1].parameters():
            nn.init.zeros_(weights)

    def forward(self, inputs: Tensor, rewards: Tensor) -> Tensor:
        """Return the logarithms of the weights, of shape (rows, heads)."""
        return torch.log_softmax(self.layers(torch.cat([inputs, rewards], dim=1)), dim=1)

    def loss(self, inputs: Tensor, log_odds: Tensor, k: Tensor, n: Tensor, divergence: float) -> Tensor:
        """Return the mean of the weighted cross-entropy, plus `divergence` times KL(weights, equal weights).

        `log_odds`, of shape (rows, heads), come from the trained heads.
        """
        logarithms = self(inputs, torch.sigmoid(log_odds))
        weights = logarithms.exp()
        loss = (weights * _cross_entropy(log_odds, k, n)).sum(1)
        equal = float(np.log(log_odds.shape[1]))
        return torch.mean(loss + divergence * ((weights * logarithms).sum(1) + equal))


def _cross_entropy(log_odds: Tensor, k: Tensor, n: Tensor) -> Tensor:
    """The cross-entropy of all follow-ups, of shape (rows, heads), for log-odds of this shape."""
    success_loss, failure_loss = functional.softplus(-log_odds), functional.softplus(log_odds)
    return k[:, None] * success_loss + (n - k)[:, None] * failure_loss


def _uniform(inputs: int, *shape: int) -> Tensor:
    """Initial weights of a linear layer with this number of inputs, as in torch's own."""
    weights: Tensor = (2 * torch.rand(*shape) - 1) / inputs**0.5
    return weights


class MonotoneNetwork(nn.Module):
    """Map inputs to the log-odds of the quantiles at the knots.

    The log-odds at the middle knot are a linear function plus a network of one hidden layer of some width. The steps
    from knot to knot are the softplus of such a network's other outputs, so they are positive.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 1)
        self.hidden = nn.Linear(inputs, width)
        self.last_layer = nn.Linear(width, 1 + INTERVALS)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.zero_()
            self.last_layer.weight.mul_(0.1)
            self.last_layer.bias.fill_(float(np.log(np.expm1(_FIRST_SPREAD / INTERVALS))))
            self.last_layer.bias[0] = 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        """Return log-odds at the knots, of shape (rows, knots), ascending, for inputs of shape (rows, inputs)."""
        outputs = self.last_layer(functional.gelu(self.hidden(inputs)))
        rises = torch.cumsum(functional.softplus(outputs[:, 1:]), dim=1)
        rises = functional.pad(rises, (1, 0))
        middle = self.linear(inputs) + outputs[:, :1]
        knots: Tensor = middle + rises - rises[:, INTERVALS // 2, None]
        return knots

    def loss(self, inputs: Tensor, k: Tensor, n: Tensor, pinball: bool) -> Tensor:
        """Return the mean loss of k of n. The pinball loss is random in training, and at fixed levels otherwise."""
        knots = self(inputs)
        if not pinball:
            return _negative_log_likelihood(knots, k, n)
        if self.training:
            return _pinball(knots, (k + torch.rand(len(k))) / (n + 1), torch.rand(len(k), _DRAWS))
        levels = (torch.arange(INTERVALS) + 0.5) / INTERVALS
        return _pinball(knots, (k + 0.5) / (n + 1), levels.expand(len(k), -1))


def _negative_log_likelihood(knots: Tensor, k: Tensor, n: Tensor) -> Tensor:
    """The mean of -ln P(k | n) in nats, without ln C(n, k): P is the mean over the middles of the intervals."""
    middles = (knots[:, 1:] + knots[:, :-1]) / 2
    log_rewards, log_complements = functional.logsigmoid(middles), functional.logsigmoid(-middles)
    log_likelihoods = k[:, None] * log_rewards + (n - k)[:, None] * log_complements
    return -(torch.logsumexp(log_likelihoods, dim=1) - float(np.log(INTERVALS))).mean()


def _pinball(knots: Tensor, rates: Tensor, levels: Tensor) -> Tensor:
    """The mean pinball loss of rates, of shape (rows,), at levels of shape (rows, levels)."""
    place = levels * INTERVALS
    below = place.floor().clamp(0, INTERVALS - 1).long()
    low, high = knots.gather(1, below), knots.gather(1, below + 1)
    short = rates[:, None] - torch.sigmoid(low + (place - below) * (high - low))
    return torch.maximum(levels * short, (levels - 1) * short).mean()
