"""Train the head of adaptive temperature scaling."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.ats.head import TemperatureHead, log_temperatures_of_rows
from prmcal.registry.calibrators.ats.trees import QuestionTree
from prmcal.registry.contracts.data import HiddenStates

__all__ = ["TrainingSettings", "train"]

_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class TrainingSettings:
    """How the head is trained. The arguments of the calibrator have the same names."""

    epochs: int
    learning_rate: float
    batch_size: int
    weight_decay: float
    held_out: float
    seed: int


@dataclass(frozen=True)
class _Labelled:
    """Prefixes with k successes of n follow-ups."""

    states: NDArray[np.float32]
    logit: torch.Tensor
    k: torch.Tensor
    n: torch.Tensor

    def loss(self, head: TemperatureHead, batch: Sequence[QuestionTree]) -> torch.Tensor:
        """The negative log-likelihood of the batch's follow-ups."""
        rows = torch.from_numpy(_rows(batch))
        scaled = self.logit[rows] * torch.exp(-log_temperatures_of_rows(head, self.states, batch))
        k, n = self.k[rows], self.n[rows]
        loss: torch.Tensor = (k * functional.softplus(-scaled) + (n - k) * functional.softplus(scaled)).sum()
        return loss

    def follow_ups(self, questions: Sequence[Sequence[QuestionTree]]) -> int:
        return int(self.n[torch.from_numpy(_rows([tree for trees in questions for tree in trees]))].sum())


def train(
    head: TemperatureHead,
    features: HiddenStates,
    trees: Sequence[QuestionTree],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    settings: TrainingSettings,
    report: Callable[[str], None],
) -> int:
    """Minimise the cross-entropy of k of n with AdamW, in batches of whole questions.

    Every follow-up has the same weight. The learning rate decays to 0 along a cosine. Norms and biases have no weight
    decay.

    Returns
    -------
    int
        The epoch whose weights the head has: the one with the lowest loss on the held-out questions, where 0 is the
        start. The last epoch if no question is held out.

    Raises
    ------
    PluginFailedError
        If the loss becomes NaN.
    """
    data = _Labelled(features.states, torch.tensor(features.logit), torch.tensor(k), torch.tensor(n))
    random = np.random.default_rng(settings.seed)
    questions, held_out = _split(_by_question(trees), settings.held_out, random)
    batches = math.ceil(len(questions) / settings.batch_size)
    follow_ups = data.follow_ups(questions)
    optimizer = _optimizer(head, settings)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs * batches)
    best = _Best(head, data, held_out)
    started = time.monotonic()
    for epoch in range(1, settings.epochs + 1):
        total = 0.0
        for batch in _shuffled(questions, settings.batch_size, random):
            loss = data.loss(head, batch) * (batches / follow_ups)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), _LARGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            total += loss.item() / batches
        if not math.isfinite(total) or not all(bool(p.isfinite().all()) for p in head.parameters()):
            raise PluginFailedError(
                f"The loss of adaptive temperature scaling became NaN in epoch {epoch} of {settings.epochs}. Lower the "
                f"learning rate ({settings.learning_rate:g})."
            )
        best.see(epoch)
        left = (time.monotonic() - started) / epoch * (settings.epochs - epoch)
        report(f"epoch {epoch} of {settings.epochs}, loss {total:.4f}, {left:.0f} s left")
    return best.restore()


class _Best:
    """Keeps the head's weights from the epoch with the lowest loss on the held-out questions."""

    def __init__(
        self, head: TemperatureHead, data: _Labelled, held_out: Sequence[Sequence[QuestionTree]]
    ) -> None:
        self._head, self._data, self._held_out = head, data, held_out
        self._lowest = math.inf
        self.see(0)

    def see(self, epoch: int) -> None:
        with torch.no_grad():
            loss = sum(self._data.loss(self._head, trees).item() for trees in self._held_out)
        if loss < self._lowest or not self._held_out:
            self._lowest, self._epoch = loss, epoch
            self._weights = {name: tensor.clone() for name, tensor in self._head.state_dict().items()}

    def restore(self) -> int:
        self._head.load_state_dict(self._weights)
        return self._epoch


def _by_question(trees: Sequence[QuestionTree]) -> list[list[QuestionTree]]:
    questions: dict[int, list[QuestionTree]] = {}
    for tree in trees:
        questions.setdefault(tree.root, []).append(tree)
    return list(questions.values())


def _split(
    questions: list[list[QuestionTree]], held_out: float, random: np.random.Generator
) -> tuple[list[list[QuestionTree]], list[list[QuestionTree]]]:
    """The questions to train on, and the held-out ones. With few questions, none is held out."""
    count = math.floor(len(questions) * held_out)
    order = random.permutation(len(questions))
    return [questions[i] for i in order[count:]], [questions[i] for i in order[:count]]


def _shuffled(
    questions: Sequence[list[QuestionTree]], batch_size: int, random: np.random.Generator
) -> Iterator[list[QuestionTree]]:
    order = random.permutation(len(questions))
    for start in range(0, len(order), batch_size):
        yield [tree for index in order[start : start + batch_size] for tree in questions[index]]


def _optimizer(head: TemperatureHead, settings: TrainingSettings) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in head.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in head.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def _rows(trees: Sequence[QuestionTree]) -> NDArray[np.int64]:
    return np.concatenate([each.rows for each in trees])
