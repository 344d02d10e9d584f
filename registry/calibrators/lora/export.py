"""Export a calibrated PRM as a checkpoint, with the adapter merged into the weights and one output per quantile."""

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
from prmcal.registry.calibrators.lora.model import QuantileHead
from prmcal.registry.contracts.models import PRM
from prmcal.registry.models.architectures import QUANTILE_ARCHITECTURE
from prmcal.registry.prms.heads import QwenPRM

_HEAD = "score.layers."
_CARD = """\
---
library_name: transformers
tags: [process-reward-model, prmcal]
---

# {name}, calibrated

A process reward model whose scores are probabilities of success: {prm}, fine-tuned by LoRA{trained_on} to predict the
quantiles {levels} of the success probability of one language model (Park et al., "Know What You Don't Know", NeurIPS
2025, Appendix C). The adapter is merged into the weights. The calibration is valid for that language model, with the
same sampling.

It reads the same text as the original, at most {max_tokens} tokens, with the marker `{marker}` (`markers: {markers}`).
Its head has an output for each quantile. The sigmoids of the sorted outputs at the marker are the quantiles, in
ascending order. Its reward in prmcal is {reward}, as `reward_level` in `config.json` says. Its weights are {dtype}.

```yaml
prms:    # in a grid of prmcal: the reward is {reward}
  - {{name: calibrated, plugin: {plugin}, arguments: {{checkpoint: {folder}, markers: {markers}}}}}       # transformers
  - {{name: calibrated, plugin: qwen-vllm, arguments: {{checkpoint: {folder}, markers: {markers}}}}}  # vLLM
```

```python
from prmcal.registry.models.architectures import QwenRewardModel  # of the package prmcal

model = QwenRewardModel.from_pretrained("{folder}")  # (batch, tokens, {count}) logits
```

`vllm serve {folder} --runner pooling` serves it where prmcal and vLLM are installed. `calibrator.json` says how it was
fitted.
"""


def exportable(prm: PRM, levels: Sequence[float], level: float) -> QwenPRM:
    """Return the PRM. Raise PluginFailedError if it cannot be exported, or `level` is not one of `levels`."""
    if not isinstance(prm, QwenPRM):
        raise PluginFailedError(
            f"Only PRMs in Qwen's format can be exported (plugin qwen). '{prm.plugin_name}' is a {type(prm).__name__}. "
            "Its adapter is in the run's folder, in PEFT's format."
        )
    if level not in levels:
        known = ", ".join(f"{each:g}" for each in levels)
        raise PluginFailedError(
            f"It does not predict the level {level:g}. Choose one of its levels: {known}."
        )
    return prm


def export_checkpoint(
    model: PeftModel,
    prm: QwenPRM,
    levels: Sequence[float],
    level: float,
    card: Mapping[str, Any],
    folder: Path,
) -> None:
    """Write a calibrated PRM with its tokenizer and its card.

    Parameters
    ----------
    model : PeftModel
        The PRM with the adapter. They share their weights, which the merge changes, so the PRM is closed afterwards.
    prm : QwenPRM
    levels : sequence of float
        The level of each output of the head.
    level : float
        The level of the reward.
    card : mapping
        What the calibrator was fitted to, and how.
    folder : Path
        The folder of the new checkpoint. It is created if it does not exist.
    """
    trunk, _ = prm.modules
    config: Any = copy.deepcopy(trunk.config)
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
    config.reward_level = level
    config.save_pretrained(folder)
    # safetensors lets only the owner read its files. The other files have the mode that the user's umask gives.
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / "config.json").stat().st_mode)
    prm.tokenizer.save_pretrained(folder)
    (folder / "calibrator.json").write_text(json.dumps(dict(card), sort_keys=True, indent=1) + "\n")
    dtype = next(iter(state.values())).dtype
    (folder / "README.md").write_text(_readme(prm, levels, level, card, folder, dtype))


def check_head(head: QuantileHead) -> None:
    """Raise PluginFailedError if a head has not the form of Qwen2.5-Math-PRM's."""
    kinds = [type(layer) for layer in head.layers]
    if head.log_odds is not None or kinds != [torch.nn.Linear, torch.nn.ReLU, torch.nn.Linear]:
        raise PluginFailedError(
            "Only a head like that of Qwen2.5-Math-PRM can be exported: two linear layers, with the difference of two "
            "outputs as log-odds."
        )


def _saved_name(name: str) -> str:
    return f"score.{name.removeprefix(_HEAD)}" if name.startswith(_HEAD) else name


def _readme(
    prm: QwenPRM,
    levels: Sequence[float],
    level: float,
    card: Mapping[str, Any],
    folder: Path,
    dtype: torch.dtype,
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
        reward="the median" if level == 0.5 else f"the {level:g}-quantile",
        count=len(levels),
        max_tokens=prm.max_tokens,
        marker=prm.marker,
        markers=prm.markers,
        dtype=str(dtype).removeprefix("torch."),
        folder=folder.name,
    )
