"""A PRM with an adapter: its weights are the PRM's own, its modules are not, so that the PRM stays what it is."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from torch import nn
from transformers import PreTrainedModel

from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.head import QuantileHead
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["ADAPTER", "QuantileRewardModel", "adapted", "lora_config", "quantile_model", "recompute_if_large"]

ADAPTER = "default"
_HEAD = "score.layers"
_LARGE = 1_000_000_000


class QuantileRewardModel(PreTrainedModel):  # type: ignore[no-untyped-call]  # transformers is half typed
    """The PRM's trunk under a head with one output per quantile.

    Parameters
    ----------
    trunk : PreTrainedModel
        Gives hidden states.
    score : QuantileHead
    """

    def __init__(self, trunk: PreTrainedModel, score: QuantileHead) -> None:
        config = copy.deepcopy(trunk.config)
        config._name_or_path = (
            ""  # A machine's path, which PEFT would write into the adapter's configuration.
        )
        config._attn_implementation = "eager"  # Of this module, which has none. The trunk keeps its own.
        super().__init__(config)
        self.model = trunk
        self.score = score
        # For the trainer, which else would take a model that is spread over several GPUs to one of them.
        self.hf_device_map = {name: weight.device for name, weight in self.named_parameters()}

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        leaves: torch.Tensor,
    ) -> torch.Tensor:
        """Log-odds per quantile at the ends of prefixes.

        Parameters
        ----------
        input_ids, position_ids, attention_mask : tensors
            As :func:`prmcal.registry.prms.token_tree.collate_token_trees` makes them.
        leaves : tensor of shape (trees, prefixes), int64
            The node of each prefix's last token.

        Returns
        -------
        tensor of shape (trees, prefixes, quantiles), float32
        """
        hidden = self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        ends = torch.take_along_dim(hidden, leaves[..., None].to(hidden.device), dim=1)
        log_odds: torch.Tensor = self.score(ends.float())
        return log_odds


def quantile_model(prm: TransformersPRM, quantiles: int) -> QuantileRewardModel:
    """The PRM with one output per quantile: before any training each is the PRM's own log-odds.

    Raises
    ------
    PluginFailedError
        If the PRM's trunk or head is of a form that cannot be adapted.
    """
    trunk, head = prm.modules
    if not isinstance(trunk, PreTrainedModel):
        raise PluginFailedError(
            f"The trunk of the PRM '{prm.plugin_name}' must be a model of transformers. It is {type(trunk).__name__}."
        )
    score = QuantileHead(_twin(head), prm.log_odds, quantiles)
    model = QuantileRewardModel(_twin(trunk), score)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def recompute_if_large(model: QuantileRewardModel) -> None:
    """Let a trunk of over a billion parameters compute its layers again for their gradients, with the same results.

    Of a trunk of 7B what the gradients need would take 4 MB a token, 18 GB for a batch of 32 prefixes; so it takes a
    tenth, for about a third more operations.
    """
    if sum(weight.numel() for weight in model.model.parameters()) > _LARGE:
        model.model.gradient_checkpointing_enable({"use_reentrant": False})


def lora_config(
    model: QuantileRewardModel,
    rank: int,
    alpha: float,
    dropout: float,
    layers: str | Sequence[int],
    target_modules: Sequence[str],
) -> LoraConfig:
    """Low-rank updates of some of the trunk's layers and of the head's, whose last layer is trained as a whole.

    Raises
    ------
    PluginFailedError
        If the trunk has no such layers or modules.
    """
    chosen = _layers(model.model, layers)
    names = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    for target in target_modules:
        missing = [
            i for i in chosen if not any(re.fullmatch(_trunk_pattern([i], [target]), n) for n in names)
        ]
        if missing:
            found = sorted({n.rpartition(".")[2] for n in names if f".layers.{missing[0]}." in n})
            raise PluginFailedError(
                f"The PRM's layer {missing[0]} has no linear module '{target}'. "
                f"Choose 'target_modules' from: {', '.join(found) or 'none'}."
            )
    *earlier, last = (f"{_HEAD}.{index}" for index, _ in model.score.layers.named_children())
    patterns = [
        _trunk_pattern(chosen, target_modules),
        *(re.escape(name) for name in earlier if name in names),
    ]
    return LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # Any number will do.
        lora_dropout=dropout,
        target_modules="|".join(f"(?:{pattern})" for pattern in patterns),
        modules_to_save=[last],
        inference_mode=False,
    )


def adapted(
    model: QuantileRewardModel, config: LoraConfig, adapter: Mapping[str, torch.Tensor] | None = None
) -> PeftModel:
    """The model with an adapter: a fresh one, drawn from torch's global generator, or a trained one.

    Raises
    ------
    PluginFailedError
        If the trained one does not fit the model.
    """
    if adapter is None:
        return get_peft_model(model, copy.deepcopy(config), adapter_name=ADAPTER).eval()
    # PEFT draws weights at any rate: the caller's random numbers stay where they were.
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        peft_model = get_peft_model(model, copy.deepcopy(config), adapter_name=ADAPTER)
    load_adapter(peft_model, adapter)
    return peft_model.eval()


def load_adapter(model: PeftModel, adapter: Mapping[str, torch.Tensor]) -> None:
    """Set the weights of a model's adapter, all of them."""
    from peft import get_peft_model_state_dict

    expected = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in adapter.items()}:
        raise PluginFailedError("The adapter's weights do not fit this PRM. Fit it again.")
    set_peft_model_state_dict(model, dict(adapter), adapter_name=ADAPTER)


def _twin(module: Any) -> Any:
    """New modules over the same storage: what is done to them does not touch the others, and costs no memory."""
    memo: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in module.parameters()
    }
    memo |= {id(buffer): buffer for buffer in module.buffers()}
    return copy.deepcopy(module, memo)


def _layers(trunk: nn.Module, layers: str | Sequence[int]) -> list[int]:
    """Indices of the decoder layers that get an adapter."""
    count = len(getattr(trunk, "layers", ()))
    if not count:
        raise PluginFailedError(
            f"The PRM's trunk, {type(trunk).__name__}, has no 'layers' that an adapter could be put into."
        )
    if layers == "all":
        return list(range(count))
    chosen = list(range(3, count, 4)) if layers == "every fourth" else [int(layer) for layer in layers]
    if not chosen or max(chosen) >= count:
        raise PluginFailedError(
            f"The PRM has the layers 0 to {count - 1}, and the 'layers' parameter is {layers!r}. "
            "Give it a list of layers that are there, or 'all'."
        )
    return chosen


def _trunk_pattern(layers: Sequence[int], target_modules: Sequence[str]) -> str:
    """Of the full names of the chosen modules. A pattern, since PEFT keeps names as a set, in no fixed order."""
    indices = "|".join(map(str, layers))
    return rf"model\.layers\.(?:{indices})\.(?:.*\.)?(?:{'|'.join(map(re.escape, target_modules))})"
