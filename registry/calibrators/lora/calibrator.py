"""The calibrator `quantile-lora`: the method of the paper (section 3.2 and Appendix C)."""

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
from prmcal.registry.messages import reading
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    from peft import PeftModel


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
    tuple[float, ...],
    Field(min_length=1, description="levels that ascend within (0, 1)"),
    AfterValidator(_ascending),
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

    def fit(self, features: ScoredPrefixes, k: Ints, n: Ints) -> Self:
        """Train an adapter on the success rates k/n; see :meth:`prmcal.Calibrator.fit`.

        The PRM itself is not changed.
        """
        from prmcal.registry.calibrators.lora.fitting import fit_adapter
        from prmcal.registry.calibrators.lora.model import quantile_model

        self.check_calibration_data(features, k, n)
        prm, rates = transformers_prm(features), np.asarray(k, dtype=np.float64) / n
        settings = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        rows = [[each.question, *each.steps] for each in features.prefixes]
        decisive = [prm.identity(), settings, self.levels, rows, k.tolist(), n.tolist()]
        fit = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        base = quantile_model(prm, len(self.levels))
        self.adapter_, self.config_, steps = fit_adapter(
            prm, base, features.prefixes, rates, self.levels, settings, self.support, fit
        )
        self.card_: dict[str, Any] = {
            "what": _WHAT,
            "prm": _plain(prm.identity()),
            "arguments": _plain(settings),
            "rows": len(k),
            "questions": len({each.question for each in features.prefixes}),
            "steps": steps,
        }
        return self.compared(features, rates)

    def predict(self, features: ScoredPrefixes) -> Floats:
        """Return calibrated rewards, of shape (rows, levels); see :meth:`prmcal.Calibrator.predict`."""
        from prmcal.registry.calibrators.lora.fitting import predict_log_odds

        self.check_fitted()
        self.check_features(features)
        prm = transformers_prm(features)
        self._check_prm(prm)
        log_odds = predict_log_odds(self._model(prm), prm, features.prefixes, len(self.levels))
        return np.sort(_reward(log_odds), axis=1)

    def compared(self, features: ScoredPrefixes, rates: Floats) -> Self:
        """Add the mean losses of the PRM's own and of the calibrated rewards to the card, and return self."""
        from prmcal.registry.calibrators.lora.fitting import mean_loss

        before = np.repeat(_reward(features.logit)[:, None], len(self.levels), axis=1)
        self.card_["first_loss"] = mean_loss(before, rates, self.levels, self.loss)
        self.card_["final_loss"] = mean_loss(self.predict(features), rates, self.levels, self.loss)
        return self

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's format (safetensors and JSON) and the card (JSON) to `folder`."""
        from prmcal.registry.calibrators.lora.export import ADAPTER_FILES, file_hash, write_adapter

        self.check_fitted()
        write_adapter(folder, self.adapter_, self.config_)
        card = {
            **self.card_,
            "plugin": self.plugin_name,
            "levels": list(self.levels),
            "files": {name: file_hash(folder / name) for name in ADAPTER_FILES},
        }
        (folder / _CARD_FILE).write_text(json.dumps(card, sort_keys=True, indent=1) + "\n")

    def load(self, folder: Path) -> Self:
        """Read what ``save`` wrote; see :meth:`prmcal.Calibrator.load`."""
        from prmcal.registry.calibrators.lora.export import file_hash, read_adapter

        with reading(f"{folder} does not contain a saved adapter", "Fit it again."):
            card = json.loads((folder / _CARD_FILE).read_text())
            plugin, levels, files = (card.pop(key) for key in ("plugin", "levels", "files"))
            if not isinstance(card["prm"], dict):
                raise ValueError("the card names no PRM")
            changed = [name for name, digest in files.items() if file_hash(folder / name) != digest]
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
        fitted, given = (_without_markers(each) for each in (self.card_["prm"], _plain(prm.identity())))
        if differing := [key for key in sorted(fitted | given) if fitted.get(key) != given.get(key)]:
            changes = (f"{key} was {fitted.get(key)!r} and is {given.get(key)!r}" for key in differing)
            raise PluginFailedError(
                f"The calibrator was fitted to another PRM: {'; '.join(changes)}. Fit it to this PRM."
            )

    def _model(self, prm: TransformersPRM) -> "PeftModel":
        """The PRM with the adapter. It is kept while both are the same, since a search predicts many times."""
        from prmcal.registry.calibrators.lora.model import adapted, quantile_model

        kept = self.__dict__.get("_kept")
        if kept is None or kept[0] is not prm.modules or kept[1] is not self.adapter_:
            model = adapted(quantile_model(prm, len(self.levels)), self.config_, self.adapter_)
            kept = self._kept = (prm.modules, self.adapter_, model)
        found: PeftModel = kept[2]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model. A copy attaches its adapter again."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}


def _without_markers(identity: dict[str, Any]) -> dict[str, Any]:
    arguments = identity.get("arguments", {})
    return {**identity, "arguments": {k: v for k, v in arguments.items() if k != "markers"}}


def transformers_prm(features: ScoredPrefixes) -> TransformersPRM:
    """Return the PRM of some prefixes. Raise PluginFailedError if it cannot be fine-tuned."""
    if not isinstance(features.prm, TransformersPRM):
        raise PluginFailedError(
            "This calibrator fine-tunes the PRM, which must derive from prmcal.TransformersPRM. "
            f"'{features.prm.plugin_name}' is a {type(features.prm).__name__}."
        )
    return features.prm


def _reward(log_odds: Floats) -> Floats:
    return np.asarray(scipy.special.expit(np.asarray(log_odds, dtype=np.float64)), dtype=np.float64)


def _plain(value: Any) -> Any:
    """The value after it is written to JSON and read again."""
    return json.loads(json.dumps(value))
