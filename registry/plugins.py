"""The registries of plugins, one for each kind, and the decorators that register plugins.

A name can come from a decorator, for instance in a file given with ``--plugin``, from the list of built-in plugins, or
from an entry point of an installed package (groups ``prmcal.llms``, ``prmcal.prms``, ``prmcal.calibrators``,
``prmcal.datasets``, ``prmcal.strategies``, ``prmcal.metrics``). Built-in and installed plugins are imported when they
are first used. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
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
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.strategy import Strategy
from prmcal.registry.messages import message_of
from prmcal.registry.sources import local_files

# mypy: disable-error-code="type-abstract"
# The contracts are abstract classes, and the registries take the classes themselves.


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
        "recorded": "prmcal.registry.recorded:RecordedLLM",
        "transformers": "prmcal.registry.llms.transformers:TransformersLLM",
        "vllm": "prmcal.registry.llms.vllm:VLLM",
    },
)
prms = Registry(
    "prm",
    PRM,
    {
        "generative": "prmcal.registry.prms.generative:GenerativePRM",
        "pooling-http": "prmcal.registry.prms.pooling:PoolingHTTPPRM",
        "qwen": "prmcal.registry.prms.heads:QwenPRM",
        "qwen-vllm": "prmcal.registry.prms.pooling:QwenVLLMPRM",
        "recorded": "prmcal.registry.recorded:RecordedPRM",
        "reasoneval": "prmcal.registry.prms.heads:ReasonEvalPRM",
        "rlhflow": "prmcal.registry.prms.answers:RLHFlowPRM",
        "shepherd": "prmcal.registry.prms.answers:ShepherdPRM",
        "skywork": "prmcal.registry.prms.heads:SkyworkPRM",
    },
)
calibrators = Registry(
    "calibrator",
    Calibrator,
    {
        "ats": "prmcal.registry.calibrators.ats:AdaptiveTemperatureScaling",
        "beta": "prmcal.registry.calibrators.logit:BetaCalibration",
        "beta-binomial": "prmcal.registry.calibrators.beta_binomial:BetaBinomial",
        "beta-binomial-lora": "prmcal.registry.calibrators.lora.beta_binomial:BetaBinomialLora",
        "conformal": "prmcal.registry.calibrators.conformal:ConformalBound",
        "ensemble": "prmcal.registry.calibrators.ensemble:Ensemble",
        "histogram": "prmcal.registry.calibrators.reward:HistogramBinning",
        "isotonic": "prmcal.registry.calibrators.reward:IsotonicCalibrator",
        "monotone-quantile": "prmcal.registry.calibrators.monotone_quantile:MonotoneQuantile",
        "platt": "prmcal.registry.calibrators.logit:PlattScaling",
        "quantile-adapter": "prmcal.registry.calibrators.lora.adapter:QuantileAdapter",
        "quantile-lora": "prmcal.registry.calibrators.lora.calibrator:QuantileLora",
        "spline": "prmcal.registry.calibrators.reward:SplineCalibration",
        "temperature": "prmcal.registry.calibrators.logit:TemperatureScaling",
        "uncalibrated": "prmcal.registry.calibrators.reward:Uncalibrated",
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
        "nano-aime": "prmcal.registry.nano.problems:NanoAIME",
        "nano-math": "prmcal.registry.nano.problems:NanoMath",
        "success-rates": "prmcal.registry.datasets.success_rates:SuccessRates",
    },
)

strategies = Registry(
    "strategy",
    Strategy,
    {
        "BEACON": "prmcal.registry.strategies.optimal_search:Beacon",
        "ESC": "prmcal.registry.strategies.agreement:EarlyStoppingSelfConsistency",
        "abstaining best-of-n": "prmcal.registry.strategies.thresholds:AbstainingBestOfN",
        "adaptive consistency": "prmcal.registry.strategies.agreement:AdaptiveConsistency",
        "beam search": "prmcal.registry.strategies.scaling:BeamSearch",
        "beam search + IAS-of-K": "prmcal.registry.strategies.scaling:BeamSearchWithIASOfK",
        "beam search + IAS-of-M": "prmcal.registry.strategies.scaling:BeamSearchWithIASOfM",
        "best-of-n": "prmcal.registry.strategies.best_of:BestOfN",
        "best-of-n + IAS": "prmcal.registry.strategies.scaling:BestOfNWithIAS",
        "certified self-consistency": "prmcal.registry.strategies.agreement:CertifiedSelfConsistency",
        "escalation": "prmcal.registry.strategies.thresholds:Escalation",
        "first good enough": "prmcal.registry.strategies.sequential:FirstGoodEnough",
        "fixed n of equal cost": "prmcal.registry.strategies.scaling:FixedOfEqualCost",
        "majority vote": "prmcal.registry.strategies.votes:MajorityVote",
        "marginal gains": "prmcal.registry.strategies.scaling:MarginalGains",
        "marginal value": "prmcal.registry.strategies.posterior:MarginalValue",
        "oracle IAS": "prmcal.registry.strategies.scaling:OracleIAS",
        "pandora": "prmcal.registry.strategies.optimal_search:Pandora",
        "pass@1": "prmcal.registry.strategies.best_of:PassAt1",
        "pass@N": "prmcal.registry.strategies.best_of:PassAtN",
        "posterior vote": "prmcal.registry.strategies.posterior_vote:PosteriorVote",
        "random budget": "prmcal.registry.strategies.scaling:RandomBudget",
        "sequential IAS": "prmcal.registry.strategies.posterior:SequentialIAS",
        "weighted best-of-n": "prmcal.registry.strategies.votes:WeightedBestOfN",
    },
    plural="strategies",
)

metrics = Registry(
    "metric",
    Metric,
    {
        "adaptive_ce": "prmcal.registry.metrics.bins:AdaptiveCE",
        "adaptive_ce_corrected": "prmcal.registry.metrics.bins:CorrectedAdaptiveCE",
        "auroc_within": "prmcal.registry.metrics.scores:AUROCWithin",
        "average_ce": "prmcal.registry.metrics.bins:AverageCE",
        "average_ce_corrected": "prmcal.registry.metrics.bins:CorrectedAverageCE",
        "brier": "prmcal.registry.metrics.scores:Brier",
        "brier_corrected": "prmcal.registry.metrics.scores:CorrectedBrier",
        "coverage": "prmcal.registry.metrics.laws:Coverage",
        "discrimination": "prmcal.registry.metrics.corp:Discrimination",
        "ece": "prmcal.registry.metrics.bins:ECE",
        "ece_corrected": "prmcal.registry.metrics.bins:CorrectedECE",
        "law_score": "prmcal.registry.metrics.laws:LawScore",
        "log_loss": "prmcal.registry.metrics.scores:LogLoss",
        "miscalibration": "prmcal.registry.metrics.corp:Miscalibration",
        "positive_brier": "prmcal.registry.metrics.scores:PositiveBrier",
        "signed_error": "prmcal.registry.metrics.scores:SignedError",
        "smooth_ce": "prmcal.registry.metrics.smooth_ce:SmoothCE",
        "smooth_ce_null": "prmcal.registry.metrics.smooth_ce:SmoothCENull",
        "squared_ce": "prmcal.registry.metrics.smooth_ce:SquaredCE",
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

_CONTENT = "__prmcal_content__"
"""The name under which the module of a plugin file keeps the hashes of the local files that it was loaded from."""


def load_plugin_file(path: Path) -> None:
    """Execute a Python file, so that its decorators register plugins.

    The same file is executed only once. If it was edited since, its plugins are forgotten and it is executed again. If
    a local module that it imports was edited, the local modules are imported again too.

    Raises
    ------
    InvalidPluginError
        If the file does not exist, raises while it is loaded, or imports a local module that is not valid Python.
    DuplicatePluginError
        If it registers a name that is taken.
    """
    path = path.resolve()
    if not path.is_file():
        raise InvalidPluginError(f"There is no plugin file {path}. Set --plugin to the path of a .py file.")
    module_name = f"prmcal_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    importlib.invalidate_caches()
    content = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in local_files(path).values()}
    loaded = sys.modules.get(module_name)
    if loaded is not None:
        before: dict[Path, str] = vars(loaded)[_CONTENT]
        if before == content:
            return
        _forget(module_name)
        if {**before, path: ""} != {**content, path: ""}:
            _forget_modules(set(before) - {path})
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InvalidPluginError(f"{path} is not a Python file. Set --plugin to the path of a .py file.")
    module = importlib.util.module_from_spec(spec)
    vars(module)[_CONTENT] = content
    sys.modules[module_name] = module
    try:
        # Not by the loader, whose cache of compiled files does not see an edit within the second of the one before.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except (DuplicatePluginError, InvalidPluginError):
        del sys.modules[module_name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise InvalidPluginError(f"The plugin file {path} cannot be loaded: {message_of(error)}") from error


def _forget_modules(files: Collection[Path]) -> None:
    """Forget the modules of some files, with their plugins and compiled files, so that they are imported again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve() in files:
            _forget(name)
            del sys.modules[name]
            with suppress(OSError):
                Path(importlib.util.cache_from_source(file)).unlink()


def _forget(module: str) -> None:
    for registry in KINDS.values():
        registry.forget(module)
