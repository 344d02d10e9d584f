"""The losses of quantile LoRA: values by hand, and minima."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.calibrators.lora.fitting import quantile_loss, squared_loss

success_rates = st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=30)


def test_the_weighted_quantile_loss_by_hand() -> None:
    predicted = torch.tensor([[0.2, 0.5, 0.9], [0.75, 0.75, 0.75]])
    target = torch.tensor([0.6, 0.25])
    # Row 1: .1 * .4, .5 * .1 and, above the target, (1 - .9) * .3. Row 2: each .5 too high, times .9, .5 and .1.
    by_hand = torch.tensor([(0.04 + 0.05 + 0.03) / 3, 0.5 * (0.9 + 0.5 + 0.1) / 3])
    torch.testing.assert_close(quantile_loss(predicted, target, (0.1, 0.5, 0.9)), by_hand)


def test_the_squared_loss_by_hand() -> None:
    losses = squared_loss(torch.tensor([[0.2], [1.0]]), torch.tensor([0.6, 0.25]))
    torch.testing.assert_close(losses, torch.tensor([0.16, 0.5625]))


@given(targets=success_rates, beta=st.floats(0.01, 0.99), other=st.floats(0, 1))
def test_no_constant_beats_the_empirical_quantile(targets: list[float], beta: float, other: float) -> None:
    quantile = float(np.quantile(targets, beta, method="inverted_cdf"))
    labels = torch.tensor(targets, dtype=torch.float64)

    def loss(constant: float) -> float:
        predicted = torch.full((len(targets), 1), constant, dtype=torch.float64)
        return float(quantile_loss(predicted, labels, (beta,)).mean())

    assert loss(quantile) <= loss(other) + 1e-12


@given(targets=success_rates, other=st.floats(0, 1))
def test_no_constant_beats_the_mean_in_squared_error(targets: list[float], other: float) -> None:
    labels = torch.tensor(targets, dtype=torch.float64)

    def loss(constant: float) -> float:
        return float(
            squared_loss(torch.full((len(targets), 1), constant, dtype=torch.float64), labels).mean()
        )

    assert loss(float(labels.mean())) <= loss(other) + 1e-12


@pytest.mark.parametrize(("rate", "slope"), [(0.75, -0.1), (0.25, 0.9)])
def test_a_low_quantile_is_pushed_down_harder_than_up(rate: float, slope: float) -> None:
    predicted = torch.tensor([[0.5]], requires_grad=True)
    quantile_loss(predicted, torch.tensor([rate]), (0.1,)).sum().backward()
    assert predicted.grad is not None
    assert predicted.grad.item() == pytest.approx(slope)
