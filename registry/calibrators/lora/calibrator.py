"""The calibrators `quantile-lora`, the method of the paper (section 3.2 and Appendix C), and `quantile-adapter`."""

import hashlib
import inspect
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import scipy  # its parts are imported when they are used
from pydantic import AfterValidator, Field

from prmcal.arrays import Floats, Ints
from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Count, FinitePositive, Seed, ShareOrZero
from prmcal.registry.messages import file_sha256, reading
from prmcal.registry.models.checkpoints import chosen_layers, folder_here, is_hub_id, read_config, resolve_checkpoint
from prmcal.registry.prms.qwen import QwenPRM
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    from peft import PeftModel

_WHAT_ELSEWHERE = "A LoRA adapter for quantiles of the success probability that was trained elsewhere"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


def _distinct(layers: str | tuple[int, ...]) -> str | tuple[int, ...]:
    if len(set(layers)) < len(layers) and not isinstance(layers, str):
        raise ValueError("Each layer must occur once.")
    return layers


def _ascending(levels: tuple[float, ...]) -> tuple[float, ...]:
    if not all(low < high for low, high in pairwise([0.0, *levels, 1.0])):
        raise ValueError("Levels must ascend within (0, 1).")
    return levels


Layers = Annotated[
    Literal["every fourth", "all"]
    | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_distinct)],
    Field(description="'every fourth', 'all' or a list of layers, counted from 0, such as [3, 7]"),
]
TargetModules = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1, description="a list of names, such as ['q_proj', 'v_proj']"),
]
Quantiles = Annotated[
    tuple[float, ...], Field(min_length=1, description="levels that ascend within (0, 1)"), AfterValidator(_ascending)
]

_CARD_FILE = "calibrator.json"
_WHAT = "A LoRA adapter that makes a process reward model predict quantiles of the success probability"


@dataclass(eq=False)
class QuantileLora(Calibrator):
    """Fine-tune the PRM by low-rank adapters (LoRA) to predict quantiles of the success probability.

    The head gets one sigmoid output per quantile. At the start, each predicts the PRM's own reward. The head and
    adapters on some of the PRM's layers are then trained on the weighted quantile loss against the success rates k/n.
    Every prefix has the same weight.

    Attributes
    ----------
    adapter_ : dict of str to tensor
        The trained weights, under PEFT's names.
    config_ : LoraConfig
        PEFT's settings.
    card_ : dict
        What the adapter was fitted to, and how. It is saved beside the adapter as ``calibrator.json``.

    Notes
    -----
    All prefixes of a trajectory are trained in one pass over a token tree. The gradients equal those of separate
    passes, except that the prefixes share their dropout.

    With two seeds on earlier nano models, `head` "full" ended at corrected Brier scores of .006 and
    .008 on nano-math, and "lora" at .010 and .015. With one seed, `batches` "prefixes" ended at .013 in place of .015,
    and took five times as long.

    Predicted quantiles that cross are sorted, row by row. The sorted quantiles are never farther from the true ones
    (Chernozhukov, Fernandez-Val and Galichon, 2010).
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = "prm"

    rank: Count = 2
    """The rank of the low-rank updates."""
    alpha: FinitePositive = 32.0
    """The updates are scaled by alpha / rank."""
    dropout: ShareOrZero = 0.1
    """The dropout probability, in [0, 1), of the adapters' inputs in training."""
    layers: Layers = "every fourth"
    """The layers of the trunk that get an adapter, counted from 0. "every fourth" means 3, 7, 11, ..."""
    target_modules: TargetModules = ("q_proj", "v_proj")
    """The linear modules of a layer that get an adapter."""
    quantiles: Quantiles = (0.1, 0.5, 0.9)
    """The levels beta, ascending in (0, 1)."""
    epochs: Count = 3
    """The number of passes over the calibration data."""
    learning_rate: FinitePositive = 1e-4
    """The initial learning rate of AdamW. It decays linearly to 0."""
    batch_size: Count = 32
    """The approximate number of prefixes in a step."""
    seed: Seed = 0
    """The seed of the adapters' initial weights, the order of the data and dropout."""
    loss: Literal["quantile", "mse"] = "quantile"
    """``mse`` trains a single output on the squared error. It is a point estimate of the mean, and `quantiles` is
    ignored."""
    head: Literal["lora", "full"] = "lora"
    """The training of the head's linear layers: by low-rank updates of all of them, as in the paper (Appendix C, and
    the authors' code), or with all of their weights and biases. See the notes."""
    batches: Literal["trajectories", "prefixes"] = "trajectories"
    """The parts of a batch: whole trajectories, whose prefixes share their tokens, or single prefixes in random
    order, as in the authors' code. See the notes."""

    def __post_init__(self) -> None:
        self.levels = (0.5,) if self.loss == "mse" else tuple(self.quantiles)
        self.training_passes, self.trains_apart = self.epochs, self.batches == "prefixes"

    def check_prm(self, prm: PRM) -> None:
        """Raise PluginFailedError if the PRM cannot be fine-tuned, or lacks `layers` as its ``config.json`` says."""
        super().check_prm(prm)
        transformers_prm(prm)
        for checkpoint in prm.checkpoints[:1]:
            folder = folder_here(checkpoint)
            count = 0 if folder is None else read_config(folder).get("num_hidden_layers", 0)
            if count:
                chosen_layers(count, self.layers)

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Train an adapter on the success rates k/n; see :meth:`prmcal.Calibrator.fit`.

        The PRM itself is not changed.
        """
        from prmcal.registry.calibrators.lora.fitting import fit_adapter

        self.check_calibration_data(features, k, n)
        prm, rates = transformers_prm(features.prm), np.asarray(k, dtype=np.float64) / n
        settings = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        rows = [[prefix.question, *prefix.steps] for prefix in features.prefixes]
        decisive = [prm.identity(), settings, self.levels, rows, k.tolist(), n.tolist()]
        fit = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        self.adapter_, self.config_, steps = fit_adapter(
            prm, features.prefixes, rates, self.levels, settings, self.support, fit
        )
        self.card_: dict[str, Any] = {
            "what": _WHAT,
            "prm": _plain(prm.identity()),
            "arguments": _plain(settings),
            "rows": len(k),
            "questions": len({prefix.question for prefix in features.prefixes}),
            "steps": steps,
        }
        return self.compared(features, rates)

    def predict(self, features: ScoredPrefixes) -> Floats:
        """Return calibrated rewards, of shape (rows, levels); see :meth:`prmcal.Calibrator.predict`."""
        from prmcal.registry.calibrators.lora.fitting import predict_log_odds

        self.check_fitted()
        self.check_features(features)
        prm = transformers_prm(features.prm)
        self._check_prm(prm)
        log_odds = predict_log_odds(self._model(prm), prm, features.prefixes, len(self.levels))
        return np.sort(scipy.special.expit(log_odds), axis=1)

    def compared(self, features: ScoredPrefixes, rates: Floats) -> Self:
        """Add the mean losses of the PRM's own and of the calibrated rewards to the card, and return self."""
        from prmcal.registry.calibrators.lora.fitting import mean_loss

        reward = scipy.special.expit(np.asarray(features.logit, dtype=np.float64))
        before = np.repeat(reward[:, None], len(self.levels), axis=1)
        self.card_["first_loss"] = mean_loss(before, rates, self.levels, self.loss)
        self.card_["final_loss"] = mean_loss(self.predict(features), rates, self.levels, self.loss)
        return self

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's format (safetensors and JSON) and the card (JSON) to `folder`."""
        from prmcal.registry.calibrators.lora.export import ADAPTER_FILES, write_adapter

        self.check_fitted()
        write_adapter(folder, self.adapter_, self.config_)
        card = {
            **self.card_,
            "plugin": self.plugin_name,
            "levels": list(self.levels),
            "files": {name: file_sha256(folder / name) for name in ADAPTER_FILES},
        }
        (folder / _CARD_FILE).write_text(json.dumps(card, sort_keys=True, indent=1) + "\n")

    def load(self, folder: Path) -> Self:
        """Read the files that ``save`` wrote; see :meth:`prmcal.Calibrator.load`."""
        from prmcal.registry.calibrators.lora.export import read_adapter

        with reading(f"{folder} does not contain a saved adapter", "Fit it again."):
            card = json.loads((folder / _CARD_FILE).read_text())
            plugin, levels, files = (card.pop(key) for key in ("plugin", "levels", "files"))
            if not isinstance(card["prm"], dict):
                raise ValueError("the card names no PRM")
            changed = [name for name, digest in files.items() if file_sha256(folder / name) != digest]
            if changed:
                raise ValueError(f"{', '.join(changed)} changed since")
            adapter, config = read_adapter(folder)
            levels = tuple(levels)
        if plugin != self.plugin_name:
            raise DataError(f"{folder} contains the calibrator '{plugin}', not '{self.plugin_name}'.")
        self.adapter_, self.config_, self.card_, self.levels = adapter, config, card, levels
        return self

    def export(self, prm: PRM, folder: Path, level: float = 0.5) -> None:
        """Write the calibrated PRM as a checkpoint that needs neither this calibrator nor PEFT.

        The checkpoint has an output for every level.
        """
        from prmcal.registry.calibrators.lora.export import export_checkpoint

        self.check_fitted()
        card = {**self.card_, "levels": list(self.levels)}
        self._check_prm(prm)
        export_checkpoint(prm, self.adapter_, self.config_, level, card, folder)

    def _check_prm(self, prm: PRM) -> None:
        # A PRM may rank with other markers than those that it is calibrated with.
        old, new = _plain(self.card_["prm"]), _plain(prm.identity())
        for identity in (old, new):
            identity.get("arguments", {}).pop("markers", None)
        if differing := [key for key in sorted(old | new) if old.get(key) != new.get(key)]:
            changes = (f"{key} was {old.get(key)!r} and is {new.get(key)!r}" for key in differing)
            raise PluginFailedError(
                f"The calibrator was fitted to another PRM: {'; '.join(changes)}. Fit it to this PRM."
            )

    def _model(self, prm: TransformersPRM) -> "PeftModel":
        """The PRM with the adapter. It is kept while neither of them changes, since a search predicts many times."""
        from prmcal.registry.calibrators.lora.model import adapted, quantile_model

        modules, adapter, model = vars(self).get("_cache", (None, None, None))
        if model is None or modules is not prm.modules or adapter is not self.adapter_:
            model = adapted(quantile_model(prm, len(self.levels)), self.config_, self.adapter_)
            self._cache = (prm.modules, self.adapter_, model)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model. A copy attaches its adapter again."""
        return {name: value for name, value in vars(self).items() if name != "_cache"}


def transformers_prm(prm: PRM) -> TransformersPRM:
    """Return a PRM that can be fine-tuned. Raise PluginFailedError if a PRM cannot be fine-tuned."""
    if not isinstance(prm, TransformersPRM):
        raise PluginFailedError(
            f"This calibrator fine-tunes the PRM, which must derive from prmcal.TransformersPRM. '{prm.plugin_name}' "
            f"is a {type(prm).__name__}. List the PRMs that the calibrator is for: 'prms' in its entry of the grid."
        )
    return prm


def _plain(value: Any) -> Any:
    """The value after it is written to JSON and read again."""
    return json.loads(json.dumps(value))


class QuantileAdapter(QuantileLora):
    r"""Use a published adapter in the layout of the paper's code: PEFT on a PRM with one output per quantile.

    Nothing is trained. ``fit`` only measures the losses on the calibration data. The adapter belongs to
    Qwen2.5-Math-PRM-7B and to the language model that it was trained for.

    Notes
    -----
    The paper's code initialises the head with the difference of the PRM's two outputs. This is not in the adapter's
    files, but follows from the PRM. For Math-Shepherd and ReasonEval, the code also draws a random bias that it does
    not save. Their adapters cannot be restored, so this calibrator refuses them.

    The tests use adapters that PEFT writes in this layout. The adapters on the hub have not been tried yet.

    The system prompt of the paper's code has "in \\boxed{}", while the PRM's documentation and the plugin `qwen` have
    "within \\boxed{}". For the exact prompt of the paper's code, set the `system_prompt` of `qwen`, as the grid
    `published` does.
    """

    adapter: str | dict[str, str]
    """A folder that PEFT wrote, with ``adapter_config.json`` and ``adapter_model.safetensors``, or a hub id such as
    ``young-j-park/Qwen2.5-Math-PRM-7B-calibrated-Llama-3.2-1B-Instruct``. For several LLMs: a mapping from each LLM's
    name in the grid to its adapter."""
    quantiles: Quantiles
    """The levels of the outputs, ascending in (0, 1)."""

    def __init__(self, adapter: str | dict[str, str], quantiles: Quantiles = (0.1, 0.5, 0.9)) -> None:
        super().__init__(quantiles=quantiles)
        self.training_passes = 0
        self.adapter = adapter

    def check_arguments(self) -> None:
        """Raise ValueError if there is no adapter, or if a folder lacks one of the adapter's two files."""
        if not self._adapters or not all(self._adapters):
            raise ValueError("The 'adapter' parameter must name one adapter, or one for each LLM of the grid.")
        for adapter in self._adapters:
            folder = Path(adapter).expanduser()
            missing = [name for name in _FILES if not (folder / name).is_file()]
            if not missing or (not folder.exists() and is_hub_id(adapter)):
                continue
            raise ValueError(
                f"The adapter {adapter} has no {missing[0]}. Give 'adapter' the folder that PEFT wrote, with "
                f"{' and '.join(_FILES)}, or its hub id. Weights as a pickle (.bin) are not read."
            )

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The adapters that are read from the hub."""
        return tuple(adapter for adapter in self._adapters if not Path(adapter).expanduser().is_dir())

    def arguments_for(self, llm: str) -> dict[str, Any] | None:
        """Return the adapter of one LLM. Raise a PluginFailedError if the LLM has no adapter."""
        if isinstance(self.adapter, str):
            return None
        if llm not in self.adapter:
            raise PluginFailedError(
                f"The calibrator 'quantile-adapter' has no adapter for the LLM '{llm}'. It has adapters for: "
                f"{', '.join(self.adapter)}. Restrict the calibrator to these LLMs with 'llms'."
            )
        return {"adapter": self.adapter[llm]}

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hashes of the adapter's files in place of their path."""
        identity = super().identity()
        arguments = {name: value for name, value in identity["arguments"].items() if name != "adapter"}
        hashes = [{name: file_sha256(_folder(adapter) / name) for name in _FILES} for adapter in self._adapters]
        of_llms = dict(zip(self.adapter, hashes, strict=True)) if isinstance(self.adapter, dict) else None
        return {**identity, "arguments": arguments, "files": of_llms or hashes[0]}

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Read the adapter and measure its loss on the data; see :meth:`prmcal.Calibrator.fit`."""
        self.check_calibration_data(features, k, n)
        self.restore(features.prm)
        return self.compared(features, np.asarray(k, dtype=np.float64) / n)

    def check_prm(self, prm: PRM) -> None:
        """Raise PluginFailedError if the PRM has another format than Qwen's."""
        if not isinstance(prm, QwenPRM):
            raise PluginFailedError(
                f"Only adapters of PRMs in Qwen's format can be read. '{prm.plugin_name}' is a {type(prm).__name__}. "
                "For such PRMs, the paper's code does not save all of the head."
            )

    def restore(self, prm: PRM) -> Self:
        """Read the adapter for a PRM, without data."""
        from prmcal.registry.calibrators.lora.export import read_published_adapter

        self.check_prm(prm)
        if not isinstance(self.adapter, str):
            raise PluginFailedError("The calibrator has several adapters. Set 'adapter' to this LLM's.")
        self.adapter_, self.config_ = read_published_adapter(_folder(self.adapter), len(self.levels))
        identity = json.loads(json.dumps(prm.identity()))
        self.card_ = {"what": _WHAT_ELSEWHERE, "prm": identity, "arguments": {"quantiles": list(self.quantiles)}}
        return self

    @property
    def _adapters(self) -> tuple[str, ...]:
        return (self.adapter,) if isinstance(self.adapter, str) else tuple(self.adapter.values())


def _folder(adapter: str) -> Path:
    """The folder of an adapter. An adapter of the hub is downloaded if it is not on this machine."""
    folder = Path(adapter).expanduser()
    return folder if folder.is_dir() else resolve_checkpoint(adapter)
