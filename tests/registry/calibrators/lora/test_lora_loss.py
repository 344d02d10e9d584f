"""The losses of quantile LoRA: values by hand, and minima."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.calibrators.lora.fitting import quantile_loss

success_rates = st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=30)


def test_the_weighted_quantile_loss_by_hand() -> None:
    predicted = torch.tensor([[0.2, 0.5, 0.9], [0.75, 0.75, 0.75]])
    target = torch.tensor([0.6, 0.25])
    # Row 1: .1 * .4, .5 * .1 and, above the target, (1 - .9) * .3. Row 2: each .5 too high, times .9, .5 and .1.
    by_hand = torch.tensor([(0.04 + 0.05 + 0.03) / 3, 0.5 * (0.9 + 0.5 + 0.1) / 3])
    torch.testing.assert_close(quantile_loss(predicted, target, (0.1, 0.5, 0.9)), by_hand)


@given(targets=success_rates, beta=st.floats(0.01, 0.99), other=st.floats(0, 1))
def test_no_constant_beats_the_empirical_quantile(targets: list[float], beta: float, other: float) -> None:
    quantile = float(np.quantile(targets, beta, method="inverted_cdf"))
    labels = torch.tensor(targets, dtype=torch.float64)

    def loss(constant: float) -> float:
        predicted = torch.full((len(targets), 1), constant, dtype=torch.float64)
        return float(quantile_loss(predicted, labels, (beta,)).mean())

    assert loss(quantile) <= loss(other) + 1e-12
