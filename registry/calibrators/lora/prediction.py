"""Predict with a PRM and its adapter, and with the PRM alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel

from prmcal.registry.calibrators.lora.batches import Packing, collate, pack, token_ids
from prmcal.registry.calibrators.lora.model import ADAPTER
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["predict_log_odds"]

_WITHOUT = "__base__"  # PEFT's name for a row of a batch that no adapter touches.


def predict_log_odds(
    model: PeftModel, prm: TransformersPRM, prefixes: Sequence[Prefix], quantiles: int, original: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log-odds of prefixes. Equal prefixes are computed once.

    Returns
    -------
    calibrated : ndarray of shape (rows, quantiles)
        The log-odds of each quantile.
    own : ndarray of shape (rows,)
        The PRM's own log-odds, from the same passes. Empty if `original` is false.
    """
    distinct = sorted(set(prefixes), key=lambda prefix: (prefix.question, prefix.steps))
    number = {prefix: index for index, prefix in enumerate(distinct)}
    rows = np.array([number[prefix] for prefix in prefixes], dtype=np.int64)
    sequences, packing = token_ids(prm, distinct), Packing.of(prm)
    calibrated = np.empty((len(distinct), quantiles))
    own = np.empty(len(distinct) if original else 0)
    for trees in pack(distinct, sequences, packing):
        batch = collate(sequences, trees, packing)
        inputs = {name: tensor.to(model.device) for name, tensor in batch.inputs.items()}
        with torch.inference_mode():
            if original:
                inputs = {name: torch.cat([tensor, tensor]) for name, tensor in inputs.items()}
                names = [ADAPTER] * len(trees) + [_WITHOUT] * len(trees)
                values = model(**inputs, adapter_names=names)
                own[batch.rows] = values[len(trees) :, :, 0].double().cpu().numpy()[batch.taken]
                values = values[: len(trees)]
            else:
                values = model(**inputs)
        calibrated[batch.rows] = values.double().cpu().numpy()[batch.taken]
    return calibrated[rows], own[rows] if original else own
