"""The base of the calibrators that have a head on hidden states. It makes their inputs, and predicts any level."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from prmcal.arrays import Bools, Floats, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.beta_regression import beta_quantiles, fit_beta_weights, initial_weights, mean_and_size
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import HiddenStates

_LEAST_SCALE = 1e-6
_LEAST_SIZE = 1e-4
_POINT = 0.5


class HeadCalibrator(Calibrator):
    """Learn a distribution of the success probability of each prefix from its score and its hidden state.

    The inputs of the head are the logit and the state at the end of the prefix, both standardised. States that are
    wider than `components` are projected to this many principal components first, since there are at most some
    thousand calibration prefixes. scikit-learn's StandardScaler keeps the noise of numbers that are nearly constant,
    and its PCA ends at other last digits than torch's.

    A head that learns from few questions, or from states without information, is worse than the success rate of all
    prefixes. So each prediction is a mean of two: the head's, and a Beta distribution that reads only the logit and
    equals this rate if the logit is not informative. The calibration questions decide the share of the head: a head and
    a Beta distribution are fitted to each half of the questions, and the share with the lowest squared error on the
    other half is used. This makes a fit take about twice as long. The reward at level 0.5, the point estimate, is the
    mean of the distribution. The median would be below the success rate where most prefixes are hopeless.

    Attributes
    ----------
    share_ : float
        The share of the head, in [0, 1]. The share is 0 if there is only one question.
    reward_weights_ : ndarray of shape (2, 2), float64
        The weights of the Beta distribution that reads the logit; see
        :func:`prmcal.registry.calibrators.beta_regression.mean_and_size`.
    mean_, scale_ : ndarray of shape (1 + width,), float64
        Mean and standard deviation of the logit and of the state, over the calibration prefixes.
    axes_ : ndarray of shape (components, width), float64
        The projection. It has no rows if the states are not projected.
    """

    version = "2"
    reads = "hidden"
    grouped = True
    levels = (0.1, 0.5, 0.9)
    any_level = True
    components: int
    """The largest number of inputs from a state."""

    @abstractmethod
    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Fit the head to success counts, all of shape (rows,), with the number of the question of each prefix.

        The inputs, of shape (rows, inputs), have the standardised logit in the first column, then the state.
        """

    @abstractmethod
    def mean_and_quantiles(self, inputs: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
        """Return mean and quantiles of the success probability by the head, of shapes (rows,) and (rows, levels)."""

    def fit(self, features: HiddenStates, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        """Standardise the states, and train the head on the success counts."""
        self.check_calibration_data(features, k, n)
        groups = self.question_numbers(features, questions)
        raw = _raw(features)
        self.mean_, spread = raw.mean(0), raw.std(0)
        self.scale_ = np.where(spread > _LEAST_SCALE * np.maximum(np.abs(self.mean_), 1e-30), spread, 1.0)
        self.axes_ = _principal_axes((raw[:, 1:] - self.mean_[1:]) / self.scale_[1:], self.components)
        inputs, k, n = self._inputs(raw), np.asarray(k), np.asarray(n)
        self.share_ = self._share_of_the_head(inputs, k, n, groups)
        self.reward_weights_ = _reward_weights(inputs, k, n)
        self.train(inputs, k, n, groups)
        return self

    def predict(self, features: HiddenStates) -> Floats:
        """Return the rewards at `levels`, of shape (rows, levels). The point estimate, at level 0.5, is the mean."""
        return self.predict_at(features, self.levels)

    def predict_at(self, features: HiddenStates, levels: Sequence[float]) -> Floats:
        """Return the mean at level 0.5, and the quantiles at all others; see :meth:`prmcal.Calibrator.predict_at`.

        Quantiles of lower levels are at most the mean, and quantiles of higher levels at least the mean. Otherwise they
        are set to the mean.
        """
        inputs = self.read(features)
        head_mean, head_quantiles = self.mean_and_quantiles(inputs, levels)
        reward_mean, reward_quantiles = _by_reward(self.reward_weights_, inputs, levels)
        mean = self.share_ * head_mean + (1 - self.share_) * reward_mean
        rewards = self.share_ * head_quantiles + (1 - self.share_) * reward_quantiles
        for column, level in enumerate(levels):
            bound = {-1: np.minimum, 1: np.maximum}.get(int(np.sign(level - _POINT)))
            rewards[:, column] = mean if bound is None else bound(rewards[:, column], mean)
        return rewards

    def load(self, folder: Path) -> Self:
        """Read the files that ``save`` wrote, also with older names; see :meth:`prmcal.Calibrator.load`."""
        super().load(folder)
        for old_name in {"law_", "reward_law_"} & {*vars(self)}:
            setattr(self, old_name.replace("law", "weights"), vars(self).pop(old_name))
        return self

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

    def _share_of_the_head(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> float:
        """The share in [0, 1] that has the lowest squared error on questions that were not learned from."""
        halves = folds(questions, 2, 0)
        if len(halves) < 2:
            return 0.0
        by_head, by_reward = np.empty(len(k)), np.empty(len(k))
        for held_out in halves:
            self.train(inputs[~held_out], k[~held_out], n[~held_out], questions[~held_out])
            by_head[held_out] = self.mean_and_quantiles(inputs[held_out], (_POINT,))[0]
            reward_weights = _reward_weights(inputs[~held_out], k[~held_out], n[~held_out])
            by_reward[held_out] = _by_reward(reward_weights, inputs[held_out], (_POINT,))[0]
        gap, error = by_head - by_reward, k / n - by_reward
        total = max(np.sum(n * gap**2), _LEAST_SCALE)
        share = np.sum(n * gap * error) / total
        _, question = np.unique(questions, return_inverse=True)
        variance = np.sum(np.bincount(question, n * gap * (error - share * gap) / total) ** 2)
        # A share that questions by chance could have is pulled to 0 (James and Stein, 1961).
        share = np.clip(share - variance / max(share, _LEAST_SCALE), 0.0, 1.0)
        # A head that is fitted to all questions has half of the noise of these.
        return float(2 * share / (1 + share))

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


def _reward_weights(inputs: Floats, k: Ints, n: Ints) -> Floats:
    """The Beta distribution that reads the standardised logit only, and makes k of n likeliest."""
    start = initial_weights(1)
    return fit_beta_weights(inputs[:, :1], k, n, start, _LEAST_SIZE, 0.0, 0.0, start)


def _by_reward(weights: Floats, inputs: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
    """Mean and quantiles of the Beta distribution, of shapes (rows,) and (rows, levels)."""
    mean, size = mean_and_size(weights, _LEAST_SIZE, inputs[:, :1])
    return mean, beta_quantiles(mean, size, levels)


def _raw(features: HiddenStates) -> Floats:
    """The logit and the state of each prefix, of shape (rows, 1 + width)."""
    states = features.states[features.leaves].astype(np.float64)
    return np.concatenate([np.asarray(features.logit, dtype=np.float64)[:, None], states], axis=1)


def _principal_axes(states: Floats, most_components: int) -> Floats:
    """The directions of the largest variance, of shape (components, width); no rows if the states are narrow.

    They are scaled by one number, so that the projections have a mean variance of about 1.
    """
    rows, width = states.shape
    if width <= most_components:
        return np.empty((0, width))
    import torch

    from prmcal.registry.calibrators.networks import one_thread

    with one_thread(0):
        _, sizes, axes = torch.pca_lowrank(torch.from_numpy(states), q=min(most_components, rows), center=False)
    spread = float(sizes.square().mean().sqrt()) / np.sqrt(rows)
    return np.ascontiguousarray(axes.T.numpy() / max(spread, _LEAST_SCALE))


def held_out_rows(questions: Ints, share: float, seed: int) -> Bools:
    """Return the rows of a share of the questions in [0, 1), chosen at random and rounded down.

    Equal numbers in `questions`, of shape (rows,), mark prefixes of the same question. scikit-learn's GroupShuffleSplit
    draws other questions, and rounds up.
    """
    numbers = np.unique(questions)
    held_out = np.random.default_rng(seed).permutation(numbers)[: int(share * len(numbers))]
    return np.isin(questions, held_out)


def folds(questions: Ints, count: int, seed: int) -> list[Bools]:
    """Return `count` selections of rows that contain every question once, or fewer if there are fewer questions.

    scikit-learn's GroupKFold evens out the rows of the folds, and would give other fits for the same arguments.
    """
    numbers = np.random.default_rng(seed).permutation(np.unique(questions))
    return [np.isin(questions, fold) for fold in np.array_split(numbers, min(count, len(numbers)))]
