"""The base of calibrators of scores alone, which are plugins of a grid and estimators of scikit-learn at once."""

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from prmcal.arrays import Floats, Ints, success_counts
from prmcal.errors import InvalidPluginError, PluginFailedError
from prmcal.log_odds import log_odds, probability
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.sources import arguments_model, validate_arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(eq=False)
class ScoreCalibrator(Calibrator):
    """Map scores in arrays by ``fit`` and ``predict``; a grid calls ``fit_features`` and ``predict_at``."""

    array_arguments: ClassVar[tuple[str, ...]] = ("logit",)
    """Constructor arguments that a grid cannot set and does not use. They are in no key."""
    level = 0.5
    """The level of the rewards that ``predict`` returns."""

    logit: bool = field(default=False, kw_only=True)
    """True if the scores of ``fit`` and ``predict`` are log-odds."""

    def __init_subclass__(cls) -> None:
        """Raise an InvalidPluginError if the class overrides a method that a grid does not call."""
        super().__init_subclass__()
        if cls.__module__ != __name__ and {"fit", "predict"} & vars(cls).keys():
            raise InvalidPluginError(
                f"The class {cls.__name__} derives from a calibrator of scores and defines 'fit' or 'predict', which a "
                "grid does not call. Define 'fit_features' and 'predict_at' instead."
            )

    def fit(self, scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Self:
        """Fit to k successes of n tries of each row. `groups` has questions, by default one for each row.

        Raises a ValueError if shapes differ or a value is out of range, or an InvalidArgumentsError if a parameter is.
        """
        model = arguments_model(type(self))
        arguments = {name: getattr(self, name) for name in model.model_fields}
        validate_arguments(model, f"calibrator {type(self).__name__}", arguments)
        self.check_arguments()
        successes = success_counts(k)
        tries = np.broadcast_to(np.asarray(n, dtype=np.int64), successes.shape)
        if np.any((successes < 0) | (successes > tries)):
            most = f"k is up to {successes.max()}, and n up to {tries.max()}"
            raise ValueError(f"Each row needs 0 <= k <= n. Here {most}. Labels are 0 and 1; for several tries, pass n.")
        questions = np.arange(len(successes)) if groups is None else np.unique(groups, return_inverse=True)[1]
        if questions.shape != successes.shape:
            raise ValueError(f"'groups' must have one entry per row: {len(successes)}. Got {len(questions)}.")
        self.logit_ = self.logit
        return self.fit_features(self._features(scores), successes, tries, questions)

    def load(self, folder: Path) -> Self:
        """Read what ``save`` wrote, also whether the scores are log-odds; see :meth:`prmcal.Calibrator.load`."""
        super().load(folder)
        self.logit = vars(self).pop("logit_", self.logit)
        return self

    def predict(self, scores: "ArrayLike") -> Floats:
        """Return the calibrated probabilities, of shape (rows,), at `level` if there are several levels.

        Raises a PluginFailedError if it is not fitted, or a ValueError if a score is out of range.
        """
        if not self.fitted_attributes():
            raise PluginFailedError(f"This {type(self).__name__} is not fitted. Call 'fit' or 'load' first.")
        return self.predict_at(self._features(scores), [self.level])[:, 0]

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

    def _features(self, scores: "ArrayLike") -> Floats:
        """Return scores of shape (rows,) or (rows, 1) as the features that `reads` names."""
        values = np.asarray(scores, dtype=np.float64)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if self.reads not in ("reward", "logit"):
            raise PluginFailedError(f"A calibrator that reads '{self.reads}' needs a PRM: use it in a grid.")
        if not self.logit and np.any((values < 0) | (values > 1)):
            raise ValueError("Each score must be in [0, 1]. If the scores are log-odds, set logit=True.")
        if self.reads == "reward":
            return probability(values) if self.logit else values
        return values if self.logit else log_odds(values)


class CurveCalibrator(ScoreCalibrator):
    """The base of calibrators that map the score of each prefix by one function."""

    @abstractmethod
    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Fit to arrays that are checked, all of shape (rows,)."""

    @abstractmethod
    def curve(self, features: Floats) -> Floats:
        """Return the calibrated rewards, of the shape of the features, (rows,)."""

    def fit_features(self, features: Floats, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        """Fit to the features that `reads` names; see :meth:`prmcal.Calibrator.fit_features`."""
        self.check_calibration_data(features, k, n)
        self.learn(np.asarray(features, dtype=np.float64), k, n)
        return self

    def predict_at(self, features: Floats, levels: Sequence[float]) -> Floats:
        """Return the calibrated rewards, which are the same at all levels, of shape (rows, levels)."""
        self.check_fitted()
        self.check_features(features)
        rewards = self.curve(np.asarray(features, dtype=np.float64))
        return np.repeat(rewards[:, None], len(levels), axis=1)
