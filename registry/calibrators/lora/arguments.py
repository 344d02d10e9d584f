"""The ranges of the constructor's arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

__all__ = ["check_lora_arguments"]


def check_lora_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if an argument of QuantileLora is outside its range."""
    for name, least in (("rank", 1), ("epochs", 1), ("batch_size", 1), ("seed", 0)):
        value = arguments[name]
        if not _is_int(value) or value < least:
            raise ValueError(
                f"The '{name}' parameter must be an int in [{least}, inf). Got {value!r} instead."
            )
    for name in ("alpha", "learning_rate"):
        value = arguments[name]
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"The '{name}' parameter must be a float in (0, inf). Got {value!r} instead.")
    if not 0 <= arguments["dropout"] < 1:
        raise ValueError(
            f"The 'dropout' parameter must be a float in [0, 1). Got {arguments['dropout']!r} instead."
        )
    if arguments["loss"] not in ("quantile", "mse"):
        raise ValueError(
            f"The 'loss' parameter must be 'quantile' or 'mse'. Got {arguments['loss']!r} instead."
        )
    _check_layers(arguments["layers"])
    _check_target_modules(arguments["target_modules"])
    _check_quantiles(arguments["quantiles"])


def _check_layers(layers: Any) -> None:
    if layers in ("every fourth", "all"):
        return
    listed = isinstance(layers, list | tuple) and len(layers) > 0
    if (
        not listed
        or not all(_is_int(each) and each >= 0 for each in layers)
        or len(set(layers)) < len(layers)
    ):
        raise ValueError(
            "The 'layers' parameter must be 'every fourth', 'all' or a list of layers, counted from 0, such as "
            f"[3, 7]. Got {layers!r} instead."
        )


def _check_target_modules(names: Any) -> None:
    listed = isinstance(names, list | tuple) and len(names) > 0
    if not listed or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            "The 'target_modules' parameter must be a list of names, such as ['q_proj', 'v_proj']. "
            f"Got {names!r} instead."
        )


def _check_quantiles(quantiles: Any) -> None:
    edges = [0.0, *quantiles, 1.0]
    if len(edges) < 3 or not all(low < high for low, high in pairwise(edges)):
        raise ValueError(
            f"The 'quantiles' parameter must be levels that ascend within (0, 1). Got {list(quantiles)} instead."
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
