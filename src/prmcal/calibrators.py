"""Calibrators of scores in arrays, as estimators of scikit-learn: no grid, no model, no torch.

>>> from prmcal.calibrators import Isotonic
>>> Isotonic().fit([0.2, 0.4, 0.6, 0.8], k=[0, 0, 2, 1], n=4).predict([0.3, 0.9])
array([0.   , 0.375])

`fit` takes `scores`, of shape (rows,) or (rows, 1): predicted probabilities of success in [0, 1], or log-odds if the
calibrator has ``logit=True``. `k` of shape (rows,) are the successes of `n` tries of each row; labels of 0 and 1 are
successes of one try, which is the default. ``clone``, pipelines and ``cross_val_predict`` of scikit-learn work. Give
``cross_val_predict`` groups and a splitter such as GroupKFold, so that rows of one question stay together.

Each class fits the plugin of a grid, and keeps it as its attribute `plugin_`. Calibrators that read hidden states or
fine-tune a PRM need its model, so they are in grids only.
"""

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from prmcal.arrays import Floats, success_counts
from prmcal.errors import PluginFailedError
from prmcal.log_odds import log_odds, probability
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.plugins import calibrators

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Beta", "Conformal", "Histogram", "Isotonic", "Platt", "Temperature"]


class _ScoreCalibrator:
    """The base class: the parameters as in scikit-learn, and the plugin of the grid that does the work."""

    plugin: ClassVar[str]
    """The registered name of the plugin."""
    plugin_: Calibrator

    def __init__(self, *, logit: bool = False) -> None:
        self.logit = logit

    def fit(self, scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Self:
        """Fit to k successes of n tries of each row. `groups` has questions, by default one for each row.

        Raises a ValueError if shapes differ or a value is out of range, or an InvalidArgumentsError if a parameter is.
        """
        successes = success_counts(k)
        tries = np.broadcast_to(np.asarray(n, dtype=np.int64), successes.shape)
        arguments = {name: value for name, value in self.get_params().items() if name != "logit"}
        plugin = calibrators.create(self.plugin, **arguments)
        questions = {}
        if plugin.grouped and groups is not None:
            questions = {"questions": np.unique(np.asarray(groups), return_inverse=True)[1]}
        self.plugin_ = plugin.fit(self._features(scores, plugin), successes, tries, **questions)
        return self

    def predict(self, scores: "ArrayLike") -> Floats:
        """Return the calibrated probabilities, of shape (rows,); of ``Conformal``, the lower bounds.

        Raises a PluginFailedError if it is not fitted.
        """
        if not hasattr(self, "plugin_"):
            raise PluginFailedError(f"This {type(self).__name__} is not fitted. Call 'fit' first.")
        level = self.get_params().get("level", 0.5)  # A point estimate is the same at every level.
        return self.plugin_.predict_at(self._features(scores, self.plugin_), [level])[:, 0]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name. Raise ValueError if there is no such parameter."""
        names = self.get_params()
        for name, value in parameters.items():
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter '{name}'. It has: {', '.join(names)}.")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        return Tags("regressor", TargetTags(required=True), regressor_tags=RegressorTags())

    def __repr__(self) -> str:
        parameters = (f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({', '.join(parameters)})"

    def _features(self, scores: "ArrayLike", plugin: Calibrator) -> Floats:
        values = np.asarray(scores, dtype=np.float64)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if plugin.reads == "reward":
            return probability(values) if self.logit else values
        return values if self.logit else log_odds(values)


class Isotonic(_ScoreCalibrator):
    """A non-decreasing curve: :class:`prmcal.registry.calibrators.reward.IsotonicCalibrator`."""

    plugin = "isotonic"


class Histogram(_ScoreCalibrator):
    """The success rates of bins: :class:`prmcal.registry.calibrators.reward.HistogramBinning`."""

    plugin = "histogram"

    def __init__(
        self, *, bins: int = 10, strategy: Literal["uniform", "quantile"] = "uniform", logit: bool = False
    ) -> None:
        self.bins, self.strategy, self.logit = bins, strategy, logit


class Platt(_ScoreCalibrator):
    """Slope and offset of the log-odds: :class:`prmcal.registry.calibrators.logit.PlattScaling`."""

    plugin = "platt"


class Beta(_ScoreCalibrator):
    """Three parameters that bend both ends: :class:`prmcal.registry.calibrators.logit.BetaCalibration`."""

    plugin = "beta"


class Temperature(_ScoreCalibrator):
    """One factor of the log-odds: :class:`prmcal.registry.calibrators.logit.TemperatureScaling`."""

    plugin = "temperature"

    def __init__(self, *, loss: Literal["likelihood", "brier"] = "likelihood", logit: bool = False) -> None:
        self.loss, self.logit = loss, logit


class Conformal(_ScoreCalibrator):
    """A lower bound that holds for 1 - level of new questions: `prmcal.registry.calibrators.conformal.ConformalBound`.

    `calibrator` is the registered name of a calibrator. Its rewards are lowered to the bound.
    """

    plugin = "conformal"

    def __init__(
        self,
        calibrator: str = "isotonic",
        *,
        level: float = 0.1,
        share: float = 0.5,
        seed: int = 0,
        logit: bool = False,
    ) -> None:
        self.calibrator, self.level, self.share, self.seed, self.logit = calibrator, level, share, seed, logit
