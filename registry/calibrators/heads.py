"""The base of the calibrators with a head on hidden states: what they read, and how they predict any level."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from prmcal.arrays import Bools, Floats, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import HiddenStates

_LEAST_SCALE = 1e-6


class HeadCalibrator(Calibrator):
    """Learn a law of the success probability of each prefix from its score and its hidden state.

    The inputs of the head are the logit and the state at the end of the prefix, both standardised. States that are
    wider than `components` are projected to this many principal components first, since there are at most some
    thousand calibration prefixes. scikit-learn's StandardScaler keeps the noise of numbers that are nearly constant,
    and its PCA ends at other last digits than torch's.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (1 + width,), float64
        Mean and standard deviation of the logit and of the state, over the calibration prefixes.
    axes_ : ndarray of shape (components, width), float64
        The projection. It has no rows if the states are not projected.
    """

    reads = "hidden"
    grouped = True
    levels = (0.1, 0.5, 0.9)
    any_level = True
    components: int
    """The largest number of inputs that are made of a state."""

    @abstractmethod
    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Fit the head to success counts, all of shape (rows,), with the number of the question of each prefix.

        The inputs, of shape (rows, inputs), have the standardised logit in the first column, then the state.
        """

    @abstractmethod
    def quantiles(self, inputs: Floats, levels: Sequence[float]) -> Floats:
        """Return the quantiles of the success probability, in [0, 1], of shape (rows, levels)."""

    def fit(self, features: HiddenStates, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        """Standardise the states, and train the head on the success counts."""
        self.check_calibration_data(features, k, n)
        groups = self.question_numbers(features, questions)
        raw = _raw(features)
        self.mean_, spread = raw.mean(0), raw.std(0)
        self.scale_ = np.where(spread > _LEAST_SCALE * np.maximum(np.abs(self.mean_), 1e-30), spread, 1.0)
        self.axes_ = _principal_axes((raw[:, 1:] - self.mean_[1:]) / self.scale_[1:], self.components)
        self.train(self._inputs(raw), np.asarray(k), np.asarray(n), groups)
        return self

    def predict(self, features: HiddenStates) -> Floats:
        """Return the quantiles at `levels`, of shape (rows, levels). The point estimate is the median."""
        return self.predict_at(features, self.levels)

    def predict_at(self, features: HiddenStates, levels: Sequence[float]) -> Floats:
        """Return the quantiles at any levels; see :meth:`prmcal.Calibrator.predict_at`."""
        return self.quantiles(self.read(features), levels)

    def read(self, features: HiddenStates) -> Floats:
        """Return the inputs of the head, of shape (rows, inputs).

        Raises a PluginFailedError if the calibrator is not fitted, or was fitted to states of another width.
        """
        self.check_fitted()
        self.check_features(features)
        check_width(self, features, len(self.mean_) - 1)
        return self._inputs(_raw(features))

    def check_features(self, features: Any) -> None:
        """Raise ValueError unless every prefix has a finite logit and a finite state."""
        super().check_features(features)
        if not np.all(np.isfinite(features.states[features.leaves])):
            raise ValueError("Each hidden state must be finite.")

    def _inputs(self, raw: Floats) -> Floats:
        standard: Floats = (raw - self.mean_) / self.scale_
        if not len(self.axes_):
            return standard
        return np.concatenate([standard[:, :1], standard[:, 1:] @ self.axes_.T], axis=1)


def check_width(calibrator: Calibrator, features: HiddenStates, width: int) -> None:
    """Raise PluginFailedError if a calibrator was fitted to states of another width."""
    if features.states.shape[1] != width:
        raise PluginFailedError(
            f"The calibrator '{calibrator.plugin_name}' was fitted to hidden states of width {width}, and these have "
            f"width {features.states.shape[1]}. They are from another PRM. Fit the calibrator to this PRM."
        )


def _raw(features: HiddenStates) -> Floats:
    """The logit and the state of each prefix, of shape (rows, 1 + width)."""
    states = features.states[features.leaves].astype(np.float64)
    return np.concatenate([np.asarray(features.logit, dtype=np.float64)[:, None], states], axis=1)


def _principal_axes(states: Floats, most: int) -> Floats:
    """The directions of the largest variance, of shape (components, width); no rows if the states are narrow.

    They are scaled by one number, so that the projections have a mean variance of about 1.
    """
    rows, width = states.shape
    if width <= most:
        return np.empty((0, width))
    import torch

    from prmcal.registry.calibrators.networks import one_thread

    with one_thread(0):
        _, sizes, axes = torch.pca_lowrank(torch.from_numpy(states), q=min(most, rows), center=False)
    spread = float(sizes.square().mean().sqrt()) / np.sqrt(rows)
    return np.ascontiguousarray(axes.T.numpy() / max(spread, _LEAST_SCALE))


def held_out_rows(questions: Ints, share: float, seed: int) -> Bools:
    """Return the rows of a share of the questions in [0, 1), chosen at random and rounded down.

    Equal numbers in `questions`, of shape (rows,), mark prefixes of the same question. scikit-learn's GroupShuffleSplit
    draws others, and rounds up.
    """
    numbers = np.unique(questions)
    chosen = np.random.default_rng(seed).permutation(numbers)[: int(share * len(numbers))]
    return np.isin(questions, chosen)


def folds(questions: Ints, count: int, seed: int) -> list[Bools]:
    """Return `count` selections of rows that contain every question once, or fewer if there are fewer questions.

    scikit-learn's GroupKFold evens out the rows of the folds, and would give other fits for the same arguments.
    """
    numbers = np.random.default_rng(seed).permutation(np.unique(questions))
    return [np.isin(questions, part) for part in np.array_split(numbers, min(count, len(numbers)))]
