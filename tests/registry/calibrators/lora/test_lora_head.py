"""The head with one output per quantile: each output starts at the PRM's own log-odds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.model import QuantileHead

LogOdds = Callable[[torch.Tensor], torch.Tensor]
WIDTH = 16


def good_minus_bad(outputs: torch.Tensor) -> torch.Tensor:
    return outputs[..., 1] - outputs[..., 0]


def shifted(outputs: torch.Tensor) -> torch.Tensor:
    return 2 * outputs[..., 0] - 0.5


def not_negative(outputs: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(outputs[..., 1:], dim=-1) - outputs[..., 0]


def nearly_linear(outputs: torch.Tensor) -> torch.Tensor:
    return good_minus_bad(outputs) + 1e-3 * outputs[..., 0] ** 2


HEADS: dict[str, Callable[[], nn.Module]] = {
    "one layer": lambda: nn.Linear(WIDTH, 3),
    "no bias": lambda: nn.Linear(WIDTH, 3, bias=False),
    "two layers": lambda: nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 3)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh()), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("log_odds", [good_minus_bad, shifted, not_negative, nearly_linear])
def test_it_starts_at_the_own_log_odds(name: str, log_odds: LogOdds) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head, hidden = HEADS[name](), torch.randn(5, 7, WIDTH)
    started = QuantileHead(head, log_odds, 4)(hidden)
    assert started.shape == (5, 7, 4)
    torch.testing.assert_close(started, log_odds(head(hidden))[..., None].expand(5, 7, 4), rtol=0, atol=1e-6)


def test_the_quantiles_have_weights_of_their_own() -> None:
    for log_odds, rows in ((good_minus_bad, 3), (not_negative, 9)):
        head = nn.Linear(WIDTH, 3)
        last = QuantileHead(head, log_odds, 3).layers[-1]
        assert isinstance(last, nn.Linear)
        assert last.weight.shape == (rows, WIDTH)
        before = head.weight.clone()
        last.weight.data.zero_()
        assert torch.equal(head.weight, before)


class Custom(nn.Module):
    pass


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (Custom(), "It is a Custom."),
        (nn.Sequential(), "It is a Sequential."),
        (nn.Sequential(nn.Linear(WIDTH, 2), nn.Softmax(-1)), "ends in a Softmax."),
    ],
)
def test_a_head_of_unknown_form_is_refused(head: nn.Module, message: str) -> None:
    with pytest.raises(PluginFailedError, match=message):
        QuantileHead(head, good_minus_bad, 3)


@pytest.mark.parametrize("log_odds", [lambda outputs: outputs.detach()[..., 0], lambda outputs: outputs[..., 7]])
def test_a_readout_that_cannot_be_trained_through_is_refused(log_odds: LogOdds) -> None:
    with pytest.raises(PluginFailedError, match="log_odds"):
        QuantileHead(nn.Linear(WIDTH, 3), log_odds, 3)
