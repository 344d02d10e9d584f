"""A PRM with an adapter and an output per quantile. The model shares the PRM's weights in new modules."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor, nn
from transformers import PreTrainedModel

from prmcal.errors import PluginFailedError
from prmcal.registry.models.checkpoints import chosen_layers
from prmcal.registry.prms.transformers import TransformersPRM

LogOdds = Callable[[Tensor], Tensor]

_PROBES = 32
_TOLERANCE = 1e-5
ADAPTER = "default"
_HEAD = "score.layers"


class QuantileHead(nn.Module):
    """Map hidden states to the log-odds of each quantile (Appendix C, "quantile prediction").

    If `log_odds`, which maps outputs of shape (..., outputs) to shape (...), is linear in the head's outputs, as in
    ``good - bad``, the new last layer has one row per quantile, the same combination of the old rows. If it is not
    linear, as in ReasonEval's ``1 - p(negative)``, the new last layer has a copy of all old outputs per quantile, and
    `log_odds` is applied to each copy. In both cases the first prediction is the PRM's own reward. (The reference
    implementation starts ReasonEval at the average of two differences, which is not the PRM's reward.)

    The PRM's head is a Linear, or a Sequential that ends in one. In `layers`, the last one is new, with copied weights,
    and the others are shared.
    """

    def __init__(self, head: nn.Module, log_odds: LogOdds, quantiles: int) -> None:
        super().__init__()
        *earlier, last_layer = _flat(head)
        if not isinstance(last_layer, nn.Linear):
            raise PluginFailedError(
                "The PRM's head must be a torch Linear, or a Sequential that ends in one, to get one output per "
                f"quantile. It is a {type(head).__name__}"
                + (f" that ends in a {type(last_layer).__name__}." if earlier else ".")
            )
        combination = linear_form(log_odds, last_layer)
        self.quantiles = quantiles
        self.log_odds = None if combination else log_odds
        self.outputs = 1 if combination else last_layer.out_features
        weight = last_layer.weight.detach()
        bias: Tensor | None = None if last_layer.bias is None else last_layer.bias.detach()
        if combination:
            weight, bias = _combine(weight, bias, *combination)
        copied = nn.Linear(last_layer.in_features, quantiles * self.outputs, bias is not None, device="meta")
        copied.weight = nn.Parameter(weight.repeat(quantiles, 1), requires_grad=False)
        if bias is not None:
            copied.bias = nn.Parameter(bias.repeat(quantiles), requires_grad=False)
        self.layers = nn.Sequential(*earlier, copied)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return log-odds of shape (..., quantiles) for hidden states of shape (..., width), float32."""
        outputs: Tensor = self.layers(hidden)
        if self.log_odds is None:
            return outputs
        return self.log_odds(outputs.reshape(*outputs.shape[:-1], self.quantiles, self.outputs))


def linear_form(log_odds: LogOdds, last_layer: nn.Linear) -> tuple[Tensor, Tensor] | None:
    """Return c and d of ``log_odds(x) = c . x + d``, or None if `log_odds` is not linear.

    c and d are float64, of shapes (outputs,) and ().

    Raises a PluginFailedError if `log_odds` has no gradient, or does not return one number per row.
    """
    device = last_layer.weight.device
    origin = torch.zeros(last_layer.out_features, dtype=torch.float64, device=device, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    probes = 4 * torch.randn(_PROBES, last_layer.out_features, generator=generator, dtype=torch.float64)
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


def _flat(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.Sequential) and len(module):
        return [layer for child in module for layer in _flat(child)]
    return [module]


def _combine(weight: Tensor, bias: Tensor | None, slope: Tensor, offset: Tensor) -> tuple[Tensor, Tensor | None]:
    """Weight, of shape (1, width), and bias, of shape (1,), of a linear combination of a layer's outputs."""
    rows = (slope @ weight.double()).to(weight.dtype)[None]
    if bias is None and offset == 0:
        return rows, None
    shift = offset if bias is None else slope @ bias.double() + offset
    return rows, shift.to(weight.dtype)[None]


class QuantileRewardModel(PreTrainedModel):
    """The PRM's trunk, which computes the hidden states, under a head with one output per quantile."""

    def __init__(self, trunk: PreTrainedModel, score: QuantileHead) -> None:
        config = copy.deepcopy(trunk.config)
        config._name_or_path = ""  # A local path, which PEFT would write into the adapter's configuration.
        # For this module, which has no attention. The trunk keeps its own.
        config._attn_implementation = "eager"
        super().__init__(config)
        self.model = trunk
        self.score = score
        # Without it, the trainer moves a model that is spread over several GPUs to one of them.
        self.hf_device_map = {name: weight.device for name, weight in self.named_parameters()}

    def forward(self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, leaves: Tensor) -> Tensor:
        """Return the log-odds of each quantile at the ends of prefixes, of shape (trees, prefixes, quantiles), float32.

        The first three arguments are from :func:`prmcal.registry.prms.token_tree.collate_token_trees`. `leaves`, of
        shape (trees, prefixes), int64, is the node of each prefix's last token.
        """
        hidden = self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        ends = torch.take_along_dim(hidden, leaves[..., None].to(hidden.device), dim=1)
        log_odds: Tensor = self.score(ends.float())
        return log_odds


def quantile_model(prm: TransformersPRM, quantiles: int) -> QuantileRewardModel:
    """Return the PRM with one output per quantile. Before training, each is the PRM's own log-odds.

    Raises a PluginFailedError if the PRM's trunk or head cannot be adapted.
    """
    trunk, head = prm.modules
    if not isinstance(trunk, PreTrainedModel):
        raise PluginFailedError(
            f"The trunk of the PRM '{prm.plugin_name}' must be a model of transformers. It is a {type(trunk).__name__}."
        )
    score = QuantileHead(_twin(head), prm.log_odds, quantiles)
    model = QuantileRewardModel(_twin(trunk), score)
    model.eval()
    return model


def lora_config(
    model: QuantileRewardModel,
    rank: int,
    alpha: float,
    dropout: float,
    layers: str | Sequence[int],
    target_modules: Sequence[str],
    head: Literal["lora", "full"],
) -> LoraConfig:
    """Configure low-rank updates of some of the trunk's layers, and the training of the head.

    The head's linear layers get low-rank updates too if `head` is "lora". If it is "full", all of their weights and
    biases are trained.

    Raises a PluginFailedError if the trunk does not have these layers or modules.
    """
    layer_numbers = _layers(model.model, layers)
    names = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    for target in target_modules:
        patterns = {number: _trunk_pattern([number], [target]) for number in layer_numbers}
        missing = [
            number for number, pattern in patterns.items() if not any(re.fullmatch(pattern, name) for name in names)
        ]
        if missing:
            candidates = sorted({name.rpartition(".")[2] for name in names if f".layers.{missing[0]}." in name})
            raise PluginFailedError(
                f"The PRM's layer {missing[0]} has no linear module '{target}'. "
                f"Choose 'target_modules' from: {', '.join(candidates) or 'none'}."
            )
    of_head = [
        f"{_HEAD}.{place}" for place, layer in model.score.layers.named_children() if isinstance(layer, nn.Linear)
    ]
    modules = [_trunk_pattern(layer_numbers, target_modules)]
    if head == "lora":
        modules += map(re.escape, of_head)
    return LoraConfig(
        r=rank,
        lora_alpha=alpha,  # Any number works.
        lora_dropout=dropout,
        target_modules="|".join(f"(?:{pattern})" for pattern in modules),
        modules_to_save=of_head if head == "full" else None,
        inference_mode=False,
    )


def adapted(model: QuantileRewardModel, config: LoraConfig, adapter: Mapping[str, Tensor] | None = None) -> PeftModel:
    """Return the model with an adapter: the given one, or a new one from torch's global random generator.

    Raises a PluginFailedError if the given adapter does not fit the model.
    """
    if adapter is None:
        return get_peft_model(model, copy.deepcopy(config), adapter_name=ADAPTER).eval()
    # PEFT draws random weights even here. The caller's random state must not change.
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        peft_model = get_peft_model(model, copy.deepcopy(config), adapter_name=ADAPTER)
    load_adapter(peft_model, adapter)
    return peft_model.eval()


def load_adapter(model: PeftModel, adapter: Mapping[str, Tensor]) -> None:
    """Set all weights of a model's adapter."""
    expected = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    if shapes != {name: tuple(tensor.shape) for name, tensor in adapter.items()}:
        raise PluginFailedError("The adapter's weights do not fit this PRM. Fit it again.")
    set_peft_model_state_dict(model, dict(adapter), adapter_name=ADAPTER)


def _twin(module: Any) -> Any:
    """Copy modules, but share their weights. Changes to the copy do not affect the original."""
    memo: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in module.parameters()
    }
    memo |= {id(buffer): buffer for buffer in module.buffers()}
    return copy.deepcopy(module, memo)


def _layers(trunk: nn.Module, layers: str | Sequence[int]) -> list[int]:
    """The indices of the decoder layers that get an adapter."""
    count = len(getattr(trunk, "layers", ()))
    if not count:
        raise PluginFailedError(f"The PRM's trunk, {type(trunk).__name__}, has no 'layers' to adapt.")
    return chosen_layers(count, layers)


def _trunk_pattern(layers: Sequence[int], target_modules: Sequence[str]) -> str:
    """A pattern for the full names of the chosen modules. PEFT would save a list of names in no fixed order."""
    indices = "|".join(map(str, layers))
    return rf"model\.layers\.(?:{indices})\.(?:.*\.)?(?:{'|'.join(map(re.escape, target_modules))})"
