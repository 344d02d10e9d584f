"""The contract of a calibrator: it maps a PRM's scores to calibrated rewards."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.features import FitSupport, HiddenStates, ScoredPrefixes
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["Calibrator"]

_STATE_FILE = "calibrator.json"
_ARRAYS_FILE = "calibrator.safetensors"


class Calibrator(Plugin, ABC):
    """Maps what it reads of a prefix to the probability of success, at one or more quantile levels.

    Attributes
    ----------
    reads : {"reward", "logit", "hidden", "prm"}
        What ``fit`` and ``predict`` are given: an array with the reward or the logit of each prefix, their
        :class:`HiddenStates`, or as :class:`ScoredPrefixes` the texts and the PRM module itself.
    grouped : bool
        Whether ``fit`` is also given ``questions``, of shape (rows,), int64: equal numbers mark prefixes of one
        question, which a calibrator that splits its data must keep together.
    support : FitSupport
        Where a long fit may keep checkpoints and report its progress; set by whoever calls ``fit``.
    levels : tuple of float
        The quantile levels beta of the columns that ``predict`` returns, ascending. ``(0.5,)`` is a point
        estimate, which then stands in for every level.
    """

    reads: Literal["reward", "logit", "hidden", "prm"] = "reward"
    grouped: ClassVar[bool] = False
    support: FitSupport = FitSupport()
    levels: tuple[float, ...] = (0.5,)

    @abstractmethod
    def fit(self, features: Any, k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Fit to Monte Carlo success counts.

        Parameters
        ----------
        features : ndarray of shape (rows,), HiddenStates or ScoredPrefixes
            What `reads` says. All of them have a length and can be indexed with rows.
        k, n : ndarray of shape (rows,), int64
            k successes of n follow-ups, 0 <= k <= n, n >= 1.

        Returns
        -------
        self
            Fitted attributes end in an underscore.
        """

    @abstractmethod
    def predict(self, features: Any) -> NDArray[np.float64]:
        """Calibrated rewards in [0, 1], of shape (rows, levels), not falling from one level to the next."""

    def check_calibration_data(self, features: Any, k: NDArray[np.int64], n: NDArray[np.int64]) -> None:
        """Raise ValueError unless the three can be fitted to. For the first line of ``fit``."""
        self.check_features(features)
        if not len(features):
            raise ValueError(
                "There are no prefixes to fit to. Give the calibration split at least one question."
            )
        if not (len(features),) == np.shape(k) == np.shape(n):
            raise ValueError(
                f"'features', 'k' and 'n' must have one entry per prefix. Got {len(features)} prefixes and the shapes "
                f"{np.shape(k)} and {np.shape(n)} instead."
            )
        if not np.all((n >= 1) & (k >= 0) & (k <= n)):
            raise ValueError("Each prefix needs k successes of n follow-ups with 0 <= k <= n and n >= 1.")

    def check_features(self, features: Any) -> None:
        """Raise ValueError unless `features` are what `reads` says, with finite scores in their range."""
        scores = features
        if self.reads in ("hidden", "prm"):
            expected = HiddenStates if self.reads == "hidden" else ScoredPrefixes
            if not isinstance(features, expected):
                raise ValueError(
                    f"'features' must be {expected.__name__}. Got {type(features).__name__} instead."
                )
            scores = features.logit
        if np.ndim(scores) != 1:
            raise ValueError(f"'features' must have shape (rows,). Got {np.shape(scores)} instead.")
        if not np.all(np.isfinite(scores)):
            raise ValueError(
                f"Each {'reward' if self.reads == 'reward' else 'logit'} must be finite. "
                "Leave out prefixes that the PRM could not read."
            )
        if self.reads == "reward" and not np.all((scores >= 0) & (scores <= 1)):
            raise ValueError("Each reward must be in [0, 1].")

    def check_fitted(self) -> None:
        """Raise PluginFailedError if there are no fitted attributes yet. For the first line of ``predict``."""
        if not any(name.endswith("_") for name in vars(self)):
            name = self.plugin_name or type(self).__qualname__
            raise PluginFailedError(
                f"The calibrator '{name}' is not fitted. Call fit, or load a fitted one, first."
            )

    def save(self, folder: Path) -> None:
        """Write the fitted attributes to `folder`: arrays as safetensors, the rest as JSON. Never pickle."""
        from safetensors.numpy import save_file

        fitted = {name: value for name, value in vars(self).items() if name.endswith("_")}
        arrays = {name: np.ascontiguousarray(v) for name, v in fitted.items() if isinstance(v, np.ndarray)}
        plain = {name: value for name, value in fitted.items() if name not in arrays}
        folder.mkdir(parents=True, exist_ok=True)
        save_file(arrays, folder / _ARRAYS_FILE)
        state = {"plugin": self.plugin_name, "levels": list(self.levels), "fitted": plain}
        (folder / _STATE_FILE).write_text(json.dumps(state, sort_keys=True, indent=1) + "\n")

    def load(self, folder: Path) -> Self:
        """Read back what ``save`` wrote; the predictions are equal to the bit.

        Raises
        ------
        DataError
            If the folder does not hold a whole saved calibrator of this plugin.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            state: dict[str, Any] = json.loads((folder / _STATE_FILE).read_text())
            arrays = load_file(folder / _ARRAYS_FILE)
            plain, plugin = state["fitted"], state["plugin"]
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise DataError(f"{folder} does not hold a saved calibrator: {error}. Fit it again.") from error
        if plugin != self.plugin_name:
            raise DataError(f"{folder} holds the calibrator '{plugin}', not '{self.plugin_name}'.")
        for name, value in {**plain, **arrays}.items():
            setattr(self, name, value)
        return self
