"""A calibrated PRM as a checkpoint of its own: the adapter merged into the weights, the quantiles in the head."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from peft import PeftModel

from prmcal.errors import PluginFailedError
from prmcal.registry.models.qwen import QUANTILE_ARCHITECTURE
from prmcal.registry.prms.qwen import QwenPRM
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["export_checkpoint", "exportable"]

_HEAD = "score.layers."
_CARD = """\
---
library_name: transformers
tags: [process-reward-model, prmcal]
---

# {name}, calibrated

A process reward model whose scores are probabilities of success: {prm}, fine-tuned by LoRA{trained_on} to predict the
quantiles {levels} of the success probability of one language model (Park et al., "Know What You Don't Know", NeurIPS
2025, Appendix C), the adapter merged into the weights. It holds for that language model, sampled as it was then.

It reads what the original reads, {max_tokens} tokens at the most, with the marker `{marker}` (`markers: {markers}`).
Its head has an output for each quantile: put in order, then through a sigmoid, they are the quantiles at the marker.
Its weights are {dtype}.

```yaml
prms:    # in a grid of prmcal: the reward is the median
  - {{name: calibrated, plugin: {plugin}, arguments: {{checkpoint: {folder}, markers: {markers}}}}}       # transformers
  - {{name: calibrated, plugin: qwen-vllm, arguments: {{checkpoint: {folder}, markers: {markers}}}}}  # vLLM
```

```python
from prmcal.registry.models.qwen import QwenRewardModel  # of the package prmcal

model = QwenRewardModel.from_pretrained("{folder}")  # (batch, tokens, {count}) logits
```

`vllm serve {folder} --runner pooling` serves it wherever prmcal is installed beside vLLM. How it was fitted is in
`calibrator.json`.
"""


def exportable(prm: TransformersPRM, levels: Sequence[float]) -> QwenPRM:
    """The PRM, or a PluginFailedError if no checkpoint can be made of it with outputs for these levels."""
    if not isinstance(prm, QwenPRM):
        raise PluginFailedError(
            f"Only PRMs in Qwen's format can be exported (plugin qwen). '{prm.plugin_name}' is a {type(prm).__name__}; "
            "its adapter is in the run's folder, in PEFT's format."
        )
    if 0.5 not in levels:
        raise PluginFailedError(
            f"An exported PRM needs the median among its quantiles. It has {tuple(levels)}."
        )
    return prm


def export_checkpoint(
    model: PeftModel, prm: QwenPRM, levels: Sequence[float], card: Mapping[str, Any], folder: Path
) -> None:
    """Write a calibrated PRM with its tokenizer and its card.

    Parameters
    ----------
    model : PeftModel
        The PRM with the adapter, over the PRM's own weights: they are changed by the merge, so that the PRM is closed.
    prm : QwenPRM
    levels : sequence of float
        One for each output of the head.
    card : mapping
        What it was fitted to and how.
    folder : Path
        Made if need be.
    """
    trunk, _ = prm.modules
    config: Any = copy.deepcopy(trunk.config)
    _check_head(model.get_base_model().score)
    try:
        merged: Any = model.merge_and_unload()
        state = {
            _saved_name(name): weight.detach().contiguous() for name, weight in merged.state_dict().items()
        }
    finally:
        prm.close()
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(state, folder, metadata={"format": "pt"})
    config.architectures = [QUANTILE_ARCHITECTURE]
    config.num_labels = len(levels)
    config.levels = list(levels)
    config.save_pretrained(folder)
    prm.tokenizer.save_pretrained(folder)
    (folder / "calibrator.json").write_text(json.dumps(dict(card), sort_keys=True, indent=1) + "\n")
    (folder / "README.md").write_text(_readme(prm, levels, card, folder, next(iter(state.values())).dtype))


def _check_head(head: Any) -> None:
    kinds = [type(layer).__name__ for layer in head.layers]
    # The last layer was trained as a whole, or by an update like the first.
    if head.log_odds is not None or kinds[:-1] != ["Linear", "ReLU"]:
        raise PluginFailedError(
            "Only a head of two linear layers can be exported, read as the difference of its two outputs: that of "
            "Qwen2.5-Math-PRM."
        )


def _saved_name(name: str) -> str:
    return f"score.{name.removeprefix(_HEAD)}" if name.startswith(_HEAD) else name


def _readme(
    prm: QwenPRM, levels: Sequence[float], card: Mapping[str, Any], folder: Path, dtype: torch.dtype
) -> str:
    known = prm.checkpoint if not Path(prm.checkpoint).exists() else Path(prm.checkpoint).name
    return _CARD.format(
        name=known.removeprefix("nano:").rpartition("/")[2],
        prm=known,
        plugin=prm.plugin_name or "qwen",
        trained_on=f" on {card['rows']:,} prefixes of {card['questions']:,} questions"
        if "rows" in card
        else "",
        levels=", ".join(f"{level:g}" for level in levels),
        count=len(levels),
        max_tokens=prm.max_tokens,
        marker=prm.marker,
        markers=prm.markers,
        dtype=str(dtype).removeprefix("torch."),
        folder=folder.name,
    )
