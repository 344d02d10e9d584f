"""A head with one output per quantile that starts at the PRM's own log-odds of success."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from prmcal.errors import PluginFailedError

__all__ = ["QuantileHead", "linear_form"]

LogOdds = Callable[[torch.Tensor], torch.Tensor]

_PROBES = 32
_TOLERANCE = 1e-5


class QuantileHead(nn.Module):
    """Map hidden states to the log-odds of each quantile (Appendix C, "quantile prediction").

    If `log_odds` is linear in the head's outputs, as in ``good - bad``, the new last layer has one row per quantile,
    the same combination of the old rows. If it is not linear, as in ReasonEval's ``1 - p(negative)``, the new last
    layer has a copy of all old outputs per quantile, and `log_odds` is applied to each copy. In both cases the first
    prediction is the PRM's own reward. (The reference implementation starts ReasonEval at the average of two
    differences, which is not the PRM's reward.)

    Parameters
    ----------
    head : Module
        The PRM's head: a Linear, or a Sequential that ends in one. The weights of the last layer are copied, and the
        others are shared.
    log_odds : callable
        The PRM's `log_odds`, which maps outputs of shape (..., outputs) to shape (...).
    quantiles : int
        The number of quantiles.

    Attributes
    ----------
    layers : Sequential
        The head's layers in order. The last one is new.
    """

    def __init__(self, head: nn.Module, log_odds: LogOdds, quantiles: int) -> None:
        super().__init__()
        earlier, last = _split(head)
        combination = linear_form(log_odds, last)
        self.quantiles = quantiles
        self.log_odds = None if combination else log_odds
        self.outputs = 1 if combination else last.out_features
        weight = last.weight.detach()
        bias: torch.Tensor | None = None if last.bias is None else last.bias.detach()
        if combination:
            weight, bias = _combine(weight, bias, *combination)
        copied = nn.Linear(last.in_features, quantiles * self.outputs, bias is not None, device="meta")
        copied.weight = nn.Parameter(weight.repeat(quantiles, 1), requires_grad=False)
        if bias is not None:
            copied.bias = nn.Parameter(bias.repeat(quantiles), requires_grad=False)
        self.layers = nn.Sequential(*earlier, copied)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return log-odds of shape (..., quantiles) for hidden states of shape (..., width), float32."""
        outputs: torch.Tensor = self.layers(hidden)
        if self.log_odds is None:
            return outputs
        return self.log_odds(outputs.reshape(*outputs.shape[:-1], self.quantiles, self.outputs))


def linear_form(log_odds: LogOdds, last: nn.Linear) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return c and d of ``log_odds(x) = c . x + d``, or None if `log_odds` is not linear.

    c and d are float64, of shapes (outputs,) and ().

    Raises
    ------
    PluginFailedError
        If `log_odds` has no gradient, or does not return one number per row.
    """
    device = last.weight.device
    origin = torch.zeros(last.out_features, dtype=torch.float64, device=device, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    probes = 4 * torch.randn(_PROBES, last.out_features, generator=generator, dtype=torch.float64)
    try:
        with torch.enable_grad():
            offset = log_odds(origin)
            (slope,) = torch.autograd.grad(offset, origin)
        values = log_odds(probes.to(device))
    except (RuntimeError, IndexError) as error:
        raise PluginFailedError(
            f"The PRM's 'log_odds' has no gradient: {error}. Write it with torch operations that have gradients, from "
            "outputs of shape (..., outputs) to shape (...)."
        ) from error
    expected = probes.to(device) @ slope + offset.detach()
    if values.shape == expected.shape and torch.allclose(values, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
        return slope, offset.detach()
    return None


def _split(head: nn.Module) -> tuple[list[nn.Module], nn.Linear]:
    """The layers before the last one, and the last one."""
    *earlier, last = _flat(head)
    if not isinstance(last, nn.Linear):
        raise PluginFailedError(
            "The PRM's head must be a torch Linear, or a Sequential that ends in one, to get one output per quantile. "
            f"It is a {type(head).__name__}" + (f" that ends in a {type(last).__name__}." if earlier else ".")
        )
    return earlier, last


def _flat(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.Sequential) and len(module):
        return [layer for child in module for layer in _flat(child)]
    return [module]


def _combine(
    weight: torch.Tensor, bias: torch.Tensor | None, slope: torch.Tensor, offset: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight, of shape (1, width), and bias, of shape (1,), of a linear combination of a layer's outputs."""
    rows = (slope @ weight.double()).to(weight.dtype)[None]
    if bias is None and offset == 0:
        return rows, None
    shift = offset if bias is None else slope @ bias.double() + offset
    return rows, shift.to(weight.dtype)[None]
