"""The registries of plugins, one for each kind, and the decorators that register plugins.

A name can come from a decorator, for instance in a file given with ``--plugin``, from the list of built-in plugins, or
from an entry point of an installed package (groups ``prmcal.llms``, ``prmcal.prms``, ``prmcal.calibrators``,
``prmcal.datasets``, ``prmcal.strategies``, ``prmcal.metrics``). Built-in and installed plugins are imported when they
are first used. Nothing here imports torch.
"""

# mypy: disable-error-code="type-abstract"
# The contracts are abstract classes, and the registries take the classes themselves.

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from prmcal.errors import (
    DuplicatePluginError,
    InvalidArgumentsError,
    InvalidPluginError,
    PrmcalError,
    UnknownPluginError,
)
from prmcal.registry.arguments import arguments_model, validate_arguments
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.contracts.strategy import Strategy
from prmcal.registry.excerpts import message_of

__all__ = [
    "KINDS",
    "Registry",
    "calibrator",
    "calibrators",
    "dataset",
    "datasets",
    "llm",
    "llms",
    "metric",
    "metrics",
    "prm",
    "prms",
    "strategies",
    "strategy",
]

P = TypeVar("P", bound=Plugin)


class Registry(Generic[P]):
    """The plugins of one kind, by their names.

    Parameters
    ----------
    kind : str
        The kind in the singular, as in error messages.
    contract : type
        The class that every plugin of this kind derives from.
    builtin : mapping of str to str
        ``module:Class`` of each built-in plugin, by its name. It is imported at the first use.
    plural : str, optional
        The kind in the plural, for the group of entry points. The default is the kind with an s.
    """

    def __init__(self, kind: str, contract: type[P], builtin: Mapping[str, str], plural: str = "") -> None:
        self.kind = kind
        self.contract = contract
        self.group = f"prmcal.{plural or f'{kind}s'}"
        self._builtin = dict(builtin)
        self._registered: dict[str, type[P]] = {}
        self._importable: dict[str, str] = {}
        # Cached, since a grid creates the same few classes hundreds of times.
        self._models: dict[type[P], type[BaseModel]] = {}

    def register(self, name: str) -> Callable[[type[P]], type[P]]:
        """Return a class decorator that registers a plugin under `name`.

        Raises
        ------
        DuplicatePluginError
            If the name is taken.
        InvalidPluginError
            If the class does not derive from the contract or lacks one of its methods, or the decorator has no name.
        """
        if not isinstance(name, str) or not name:
            raise InvalidPluginError(
                f'The decorator needs a name. Write @{self.kind}("my-{self.kind}") above the class.'
            )

        def decorate(cls: type[P]) -> type[P]:
            self._check_contract(name, cls)
            holder = self.names().get(name)
            if holder is not None and holder != f"{cls.__module__}:{cls.__qualname__}":
                raise DuplicatePluginError(
                    f"The {self.kind} name '{name}' is already registered by {holder}. Choose another name."
                )
            self._registered[name] = cls
            return cls

        return decorate

    def forget(self, module: str) -> None:
        """Remove the plugins that a module registered."""
        kept = {name: cls for name, cls in self._registered.items() if cls.__module__ != module}
        self._registered = kept

    def names(self) -> dict[str, str]:
        """Return ``module:Class`` of every plugin, sorted by name.

        Raises
        ------
        DuplicatePluginError
            If an installed package has a name that is taken.
        """
        found = dict(self._builtin)
        for point in metadata.entry_points(group=self.group):
            if found.setdefault(point.name, point.value) != point.value:
                raise DuplicatePluginError(
                    f"The {self.kind} name '{point.name}' belongs to {found[point.name]} and to {point.value} of the "
                    f"package {point.dist.name if point.dist else 'unknown'}. Uninstall one of them."
                )
        self._importable = dict(found)
        found |= {name: f"{cls.__module__}:{cls.__qualname__}" for name, cls in self._registered.items()}
        return dict(sorted(found.items()))

    def get(self, name: str) -> type[P]:
        """Return the class registered under `name`, and import it if necessary.

        Raises
        ------
        UnknownPluginError
            If there is no such name. The message has the nearest names.
        InvalidPluginError
            If the module cannot be imported, or the class breaks the contract.
        """
        if name in self._registered:
            return self._registered[name]
        # Entry points are read again for an unknown name only, since that takes a while.
        known = self._importable if name in self._importable else self.names()
        if name not in known:
            raise UnknownPluginError(self._unknown(name, list(known)))
        cls: type[P] = self._import(name, known[name])
        self._check_contract(name, cls)
        self._registered[name] = cls
        return cls

    def create(self, plugin_name: str, /, **arguments: Any) -> P:
        """Build a plugin from data. The validated arguments are kept in its attribute `arguments`.

        Raises
        ------
        UnknownPluginError, InvalidPluginError
            As in :meth:`get`.
        InvalidArgumentsError
            If an argument is unknown, missing, of a wrong type or out of range, or if the plugin refuses the arguments.
        """
        cls = self.get(plugin_name)
        model = self._models.get(cls) or self._models.setdefault(cls, arguments_model(cls))
        validated = validate_arguments(model, f"{self.kind} '{plugin_name}'", arguments)
        try:
            plugin = cls(**validated)
            plugin.check_arguments()
        except (TypeError, ValueError) as error:
            raise InvalidArgumentsError(f"The {self.kind} '{plugin_name}': {error}") from error
        plugin.plugin_name = plugin_name
        plugin.arguments = validated
        return plugin

    def _import(self, name: str, target: str) -> Any:
        module, _, attribute = target.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except PrmcalError:
            raise
        except Exception as error:
            raise InvalidPluginError(
                f"The {self.kind} '{name}' cannot be loaded from {target}: {message_of(error)}. "
                "Check that its package and all dependencies are installed."
            ) from error
        return found

    def _check_contract(self, name: str, cls: Any) -> None:
        if not (inspect.isclass(cls) and issubclass(cls, self.contract)):
            own = [
                kind
                for kind, each in KINDS.items()
                if inspect.isclass(cls) and issubclass(cls, each.contract)
            ]
            hint = f' Write @{own[0]}("{name}") above it.' if own else ""
            raise InvalidPluginError(
                f"The {self.kind} '{name}' ({getattr(cls, '__qualname__', cls)!s}) must be a class that derives "
                f"from prmcal.{self.contract.__name__}.{hint}"
            )
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            forms = (
                f"def {each}({', '.join(inspect.signature(getattr(cls, each)).parameters)})"
                for each in missing
            )
            raise InvalidPluginError(
                f"The {self.kind} '{name}' ({cls.__qualname__}) lacks {', '.join(missing)}. Write "
                f"{' and '.join(forms)}. "
                f"See prmcal.{self.contract.__name__} for the contract."
            )

    def _unknown(self, name: str, known: list[str]) -> str:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if close:
            return f"There is no {self.kind} '{name}'. Did you mean {' or '.join(repr(c) for c in close)}?"
        return f"There is no {self.kind} '{name}'. Registered: {', '.join(known) or 'none'}."


llms = Registry(
    "llm",
    LLM,
    {
        "openai": "prmcal.registry.llms.openai:OpenAILLM",
        "openai-chat": "prmcal.registry.llms.openai_chat:OpenAIChatLLM",
        "recorded": "prmcal.registry.llms.recorded:RecordedLLM",
        "transformers": "prmcal.registry.llms.transformers:TransformersLLM",
        "vllm": "prmcal.registry.llms.vllm:VLLM",
    },
)
prms = Registry(
    "prm",
    PRM,
    {
        "generative": "prmcal.registry.prms.generative.prm:GenerativePRM",
        "pooling-http": "prmcal.registry.prms.pooling_http:PoolingHTTPPRM",
        "qwen": "prmcal.registry.prms.qwen:QwenPRM",
        "qwen-vllm": "prmcal.registry.prms.qwen_vllm:QwenVLLMPRM",
        "recorded": "prmcal.registry.prms.recorded:RecordedPRM",
        "reasoneval": "prmcal.registry.prms.reasoneval:ReasonEvalPRM",
        "rlhflow": "prmcal.registry.prms.rlhflow:RLHFlowPRM",
        "shepherd": "prmcal.registry.prms.shepherd:ShepherdPRM",
        "skywork": "prmcal.registry.prms.skywork:SkyworkPRM",
    },
)
calibrators = Registry(
    "calibrator",
    Calibrator,
    {
        "ats": "prmcal.registry.calibrators.ats:AdaptiveTemperatureScaling",
        "beta": "prmcal.registry.calibrators.beta:BetaCalibration",
        "beta-binomial": "prmcal.registry.calibrators.heads.beta_binomial:BetaBinomial",
        "beta-binomial-lora": "prmcal.registry.calibrators.beta_binomial_lora:BetaBinomialLora",
        "conformal": "prmcal.registry.calibrators.conformal:ConformalBound",
        "ensemble": "prmcal.registry.calibrators.heads.ensemble:Ensemble",
        "histogram": "prmcal.registry.calibrators.histogram:HistogramBinning",
        "isotonic": "prmcal.registry.calibrators.isotonic:IsotonicCalibrator",
        "monotone-quantile": "prmcal.registry.calibrators.heads.monotone_quantile:MonotoneQuantile",
        "platt": "prmcal.registry.calibrators.platt:PlattScaling",
        "quantile-adapter": "prmcal.registry.calibrators.lora.adapter:QuantileAdapter",
        "quantile-lora": "prmcal.registry.calibrators.lora.calibrator:QuantileLora",
        "spline": "prmcal.registry.calibrators.spline:SplineCalibration",
        "temperature": "prmcal.registry.calibrators.temperature:TemperatureScaling",
        "uncalibrated": "prmcal.registry.calibrators.uncalibrated:Uncalibrated",
        "venn-abers": "prmcal.registry.calibrators.venn_abers:VennAbers",
    },
)
datasets = Registry(
    "dataset",
    Dataset,
    {
        "aime24": "prmcal.registry.datasets.published:AIME24",
        "aime24-25": "prmcal.registry.datasets.published:AIME2425",
        "aime25": "prmcal.registry.datasets.published:AIME25",
        "gsm8k": "prmcal.registry.datasets.published:GSM8K",
        "jsonl": "prmcal.registry.datasets.jsonl:JsonlDataset",
        "math-calibration": "prmcal.registry.datasets.published:MathCalibration",
        "math500": "prmcal.registry.datasets.published:MATH500",
        "nano-aime": "prmcal.registry.datasets.nano:NanoAIME",
        "nano-math": "prmcal.registry.datasets.nano:NanoMath",
        "success-rates": "prmcal.registry.datasets.success_rates:SuccessRates",
    },
)

strategies = Registry(
    "strategy",
    Strategy,
    {
        "BEACON": "prmcal.registry.strategies.sequential.beacon:Beacon",
        "ESC": "prmcal.registry.strategies.sequential.agreement:EarlyStoppingSelfConsistency",
        "abstaining best-of-n": "prmcal.registry.strategies.abstaining:AbstainingBestOfN",
        "adaptive consistency": "prmcal.registry.strategies.sequential.agreement:AdaptiveConsistency",
        "beam search": "prmcal.registry.strategies.beams:BeamSearch",
        "beam search + IAS-of-K": "prmcal.registry.strategies.beams:BeamSearchWithIASOfK",
        "beam search + IAS-of-M": "prmcal.registry.strategies.beams:BeamSearchWithIASOfM",
        "best-of-n": "prmcal.registry.strategies.fixed:BestOfN",
        "best-of-n + IAS": "prmcal.registry.strategies.adaptive:BestOfNWithIAS",
        "certified self-consistency": "prmcal.registry.strategies.sequential.agreement:CertifiedSelfConsistency",
        "escalation": "prmcal.registry.strategies.escalation:Escalation",
        "first good enough": "prmcal.registry.strategies.sequential.first_good:FirstGoodEnough",
        "fixed n of equal cost": "prmcal.registry.strategies.adaptive:FixedOfEqualCost",
        "majority vote": "prmcal.registry.strategies.votes:MajorityVote",
        "marginal gains": "prmcal.registry.strategies.gains:MarginalGains",
        "marginal value": "prmcal.registry.strategies.sequential.posterior:MarginalValue",
        "oracle IAS": "prmcal.registry.strategies.adaptive:OracleIAS",
        "pandora": "prmcal.registry.strategies.sequential.search:Pandora",
        "pass@1": "prmcal.registry.strategies.fixed:PassAt1",
        "pass@N": "prmcal.registry.strategies.fixed:PassAtN",
        "posterior vote": "prmcal.registry.strategies.sequential.posterior_vote:PosteriorVote",
        "random budget": "prmcal.registry.strategies.adaptive:RandomBudget",
        "sequential IAS": "prmcal.registry.strategies.sequential.posterior:SequentialIAS",
        "weighted best-of-n": "prmcal.registry.strategies.votes:WeightedBestOfN",
    },
    plural="strategies",
)

metrics = Registry(
    "metric",
    Metric,
    {
        "adaptive_ce": "prmcal.registry.metrics.bin_errors:AdaptiveCE",
        "adaptive_ce_corrected": "prmcal.registry.metrics.bin_errors:CorrectedAdaptiveCE",
        "auroc_within": "prmcal.registry.metrics.auroc_within:AUROCWithin",
        "average_ce": "prmcal.registry.metrics.bin_errors:AverageCE",
        "average_ce_corrected": "prmcal.registry.metrics.bin_errors:CorrectedAverageCE",
        "brier": "prmcal.registry.metrics.brier:Brier",
        "brier_corrected": "prmcal.registry.metrics.brier:CorrectedBrier",
        "coverage": "prmcal.registry.metrics.coverage:Coverage",
        "discrimination": "prmcal.registry.metrics.corp:Discrimination",
        "ece": "prmcal.registry.metrics.bin_errors:ECE",
        "ece_corrected": "prmcal.registry.metrics.bin_errors:CorrectedECE",
        "law_score": "prmcal.registry.metrics.law_score:LawScore",
        "log_loss": "prmcal.registry.metrics.log_loss:LogLoss",
        "miscalibration": "prmcal.registry.metrics.corp:Miscalibration",
        "positive_brier": "prmcal.registry.metrics.brier:PositiveBrier",
        "signed_error": "prmcal.registry.metrics.brier:SignedError",
        "smooth_ce": "prmcal.registry.metrics.smooth_ce:SmoothCE",
        "smooth_ce_null": "prmcal.registry.metrics.smooth_ce:SmoothCENull",
        "squared_ce": "prmcal.registry.metrics.squared_ce:SquaredCE",
        "uncertainty": "prmcal.registry.metrics.corp:Uncertainty",
    },
)

KINDS: dict[str, Registry[Any]] = {
    "llm": llms,
    "prm": prms,
    "calibrator": calibrators,
    "dataset": datasets,
    "strategy": strategies,
    "metric": metrics,
}

llm, prm, calibrator, dataset = llms.register, prms.register, calibrators.register, datasets.register
strategy, metric = strategies.register, metrics.register
