"""Assertions for PRMs of every format: long prefixes are flagged, and the head is float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from prmcal import ScoringRequest, TransformersPRM
from tests.registry.prms.prm_layouts import saved_weights

__all__ = ["assert_exact_head", "assert_long_prefixes_flagged", "assert_trunk_as_saved"]


def assert_long_prefixes_flagged(plugin: TransformersPRM) -> None:
    """For a plugin with a low limit: prefixes of 60 digits have no score, and shorter ones keep their scores."""
    fits, cut = plugin.score_batch([ScoringRequest("1+1?", (("2",),)), ScoringRequest("1+1?", (("2", "3" * 60, "4"),))])
    assert fits[0].over_long.tolist() == [False, False]
    assert cut[0].over_long.tolist() == [False, False, True, True]
    np.testing.assert_allclose(cut[0].reward[:2], fits[0].reward, atol=1e-5)
    assert np.isnan(cut[0].reward[2:]).all()


def assert_exact_head(coarse: TransformersPRM, exact: TransformersPRM) -> None:
    """The head of a PRM in bfloat16 is float32, and its scores are near those of the PRM in float32."""
    trunk, head = coarse.modules
    assert {weights.dtype for weights in trunk.parameters()} == {torch.bfloat16}
    assert {weights.dtype for weights in head.parameters()} == {torch.float32}
    steps = ("a) 37+15=52", "b) 52-8=\\boxed{44}")
    scores = [plugin.score("Start with 37. a) add 15, b) subtract 8.", [steps])[0].logit for plugin in (coarse, exact)]
    assert np.abs(scores[0] - scores[1]).max() < 1.0


def assert_trunk_as_saved(
    folder: Path, plugin: TransformersPRM, head: Mapping[str, torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """All loaded weights equal the saved ones: those of the trunk, and those of a `head` under their saved names.

    Returns
    -------
    dict of str to Tensor
        The saved weights that were not loaded.
    """
    saved = saved_weights(folder)
    loaded = {f"model.{name}": tensor for name, tensor in plugin.modules[0].state_dict().items()} | dict(head or {})
    assert set(loaded) <= set(saved)
    assert all(torch.equal(loaded[name], saved[name]) for name in loaded)
    return {name: tensor for name, tensor in saved.items() if name not in loaded}
