"""The calibrator `ats`: adaptive temperature scaling (Xie et al., 2024) of a PRM's scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.calibrators.ats.trees import QuestionTree, cut_trees
from prmcal.registry.calibrators.temperature import TemperatureScaling
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.features import HiddenStates

if TYPE_CHECKING:
    from prmcal.registry.calibrators.ats.head import TemperatureHead

__all__ = ["AdaptiveTemperatureScaling"]

_TREE_NODES = 1024
"""Size at which a tree is full: attention costs the square of it, a smaller one repeats more of a question."""

_BATCH_NODES = 4096
_ROOTS_TO_KNOW_A_PRM = 8
_SAME_ROOT = 0.05


class AdaptiveTemperatureScaling(Calibrator):
    """Reward sigmoid(logit / T(x)): a transformer over the PRM's states of question and prefix picks T.

    Xie et al. (2024, "Calibrating Language Models with Adaptive Temperature Scaling") put one decoder block over a
    language model's last hidden states, which gives every token a temperature; appendix E.3 of the paper adapts it to
    a PRM's score, and says no more than that. Here T(x) is read where the PRM's score is, at the last token of a
    prefix. It lies in [1/100, 100] and is 1 in a new head, whose prediction is the PRM's own reward. Fitting first
    sets the head's last offset, and with it T everywhere, to the one best temperature of ``temperature``; then all of
    the head is trained.

    A temperature moves a reward towards 1/2 or away from it, never across: a prefix that the PRM takes for good is
    never predicted to fail more often than not, whatever the head sees. Where the PRM is wrong about which side, the
    best that ATS can do is 1/2.

    Parameters
    ----------
    layers : int, default=1
        Decoder blocks.
    heads : int, default=4
        Attention heads of a block.
    width : int, default=64
        Width of the blocks, a multiple of twice the heads.
    epochs : int, default=10
        Passes over the calibration questions.
    learning_rate : float, default=1e-3
        Of AdamW at the start; it falls to 0 along a cosine.
    batch_size : int, default=8
        Questions per step.
    weight_decay : float, default=0.1
        Of all matrices.
    held_out : float, default=0.2
        Share of the questions, in [0, 1), that the head is not trained on: the epoch that does best on them is kept,
        or the one temperature where no epoch beats it. 0 trains on all and keeps the last epoch.
    seed : int, default=0
        Of the first weights, of the questions held out and of the order of the questions.

    Attributes
    ----------
    weights_ : ndarray of shape (parameters,), float32
        The head's weights, in the order of its parameters.
    shape_ : list of int
        Layers, heads and width of the head that has these weights.
    epoch_ : int
        The epoch that was kept; 0 is the one temperature.
    mean_, scale_ : ndarray of shape (width of the states,), float64
        Mean and standard deviation of the states that were fitted to, by which all states are standardised.
    root_ : ndarray of shape (width of the states,) or (0,), float64
        The state of the first token, where it is the same for all questions: it tells this PRM from others.

    Notes
    -----
    What differs from Xie et al. and why:

    - The loss is the cross-entropy of k successes of n follow-ups. Theirs, selective smoothing, tells tokens that the
      model got right from those that it got wrong and smooths the latter's labels; with soft labels no prefix is
      either, and the labels themselves say how far to smooth.
    - The block is narrower than the PRM: a projection comes before it. Theirs is as wide as the model (4096, a fifth of
      a billion weights) and learns from 52,000 texts; calibration questions are some hundreds. States are standardised
      first, since a language model's have a few dimensions that dwarf the rest, and normed before the last layer.
    - Temperatures are bounded on both sides, smoothly; theirs from below only, at 1/10.
    - Training starts from the best single temperature. Gradient steps alone are too few to get there on a small
      calibration set, and where states say nothing it is what should come out.
    - They train for 2 epochs at 5e-5. The defaults here were chosen on held-out calibration questions.

    All prefixes of a question are read in one pass over the tree of their tokens. Fitting works in float32 and is
    repeatable to the bit with the same number of threads. Prediction works in float64, so that a prefix gets the same
    reward alone and among others to within 1e-12.
    """

    reads = "hidden"

    def __init__(
        self,
        layers: int = 1,
        heads: int = 4,
        width: int = 64,
        epochs: int = 10,
        learning_rate: float = 1e-3,
        batch_size: int = 8,
        weight_decay: float = 0.1,
        held_out: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.layers = layers
        self.heads = heads
        self.width = width
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.held_out = held_out
        self.seed = seed

    def check_arguments(self) -> None:
        """Raise ValueError if a number is outside its range, or the width cannot be shared among the heads."""
        for name in ("layers", "heads", "width", "epochs", "batch_size", "seed"):
            value, least = getattr(self, name), 0 if name == "seed" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"The '{name}' parameter must be an int in [{least}, inf). Got {value!r} instead."
                )
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"The 'learning_rate' parameter must be a float in (0, inf). Got {self.learning_rate!r} instead."
            )
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(
                f"The 'weight_decay' parameter must be a float in [0, inf). Got {self.weight_decay!r} instead."
            )
        if not 0 <= self.held_out < 1:
            raise ValueError(
                f"The 'held_out' parameter must be a float in [0, 1). Got {self.held_out!r} instead."
            )
        if self.width % (2 * self.heads):
            raise ValueError(
                "The 'width' parameter must be a multiple of twice the 'heads', "
                f"{2 * self.heads}. Got {self.width} instead."
            )

    def fit(self, features: HiddenStates, k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Train the head on the prefixes' counts.

        Raises
        ------
        PluginFailedError
            If the loss becomes NaN.
        """
        import torch

        from prmcal.registry.calibrators.ats.head import make_head
        from prmcal.registry.calibrators.ats.training import TrainingSettings, train

        self.check_calibration_data(features, k, n)
        trees = cut_trees(features, _TREE_NODES)
        mean, scale = _moments(features, trees)
        head = make_head(mean, scale, self.width, self.layers, self.heads, self.seed)
        head.set_temperature(TemperatureScaling().fit(features.logit, k, n).temperature_)
        settings = TrainingSettings(
            self.epochs, self.learning_rate, self.batch_size, self.weight_decay, self.held_out, self.seed
        )
        self.epoch_ = train(head, features, trees, k, n, settings, self.support.report)
        self.weights_ = torch.nn.utils.parameters_to_vector(head.parameters()).detach().numpy()
        self.shape_ = [self.layers, self.heads, self.width]
        self.mean_, self.scale_ = mean, scale
        self.root_ = _common_root(features.states[sorted({each.root for each in trees})])
        return self

    def predict(self, features: HiddenStates) -> NDArray[np.float64]:
        """sigmoid(logit / T(x)), of shape (rows, 1).

        Raises
        ------
        PluginFailedError
            If it is not fitted, or the states are those of another PRM than it was fitted to.
        """
        from scipy.special import expit

        self.check_fitted()
        self.check_features(features)
        rewards: NDArray[np.float64] = expit(features.logit / self.temperatures(features))
        return rewards[:, None]

    def temperatures(self, features: HiddenStates) -> NDArray[np.float64]:
        """T(x) of each prefix, in [0.01, 100], of shape (rows,). Raises what ``predict`` raises."""
        import torch

        from prmcal.registry.calibrators.ats.head import log_temperatures_of_rows

        self.check_fitted()
        self.check_features(features)
        trees = cut_trees(features, _TREE_NODES)
        self._check_same_prm(features, trees)
        head = self._head().double()
        log_temperatures = np.empty(len(features))
        with torch.no_grad():
            for batch in _batches(trees):
                rows = np.concatenate([each.rows for each in batch])
                log_temperatures[rows] = log_temperatures_of_rows(head, features.states, batch).numpy()
        if not np.all(np.isfinite(log_temperatures)):
            raise ValueError("Each hidden state must be finite.")
        return np.exp(log_temperatures)

    def check_features(self, features: HiddenStates) -> None:
        """Raise ValueError unless the features are a forest with a finite log-odds at every prefix."""
        super().check_features(features)
        nodes = len(features.parents)
        if features.states.ndim != 2 or len(features.states) != nodes:
            raise ValueError(
                f"'states' must have one row per node, shape ({nodes}, width). Got {features.states.shape} instead."
            )
        if not np.all((features.parents >= -1) & (features.parents < np.arange(nodes))):
            raise ValueError("Each parent must be a node with a smaller index, or -1 at a first token.")
        if not np.all((features.leaves >= 0) & (features.leaves < nodes)):
            raise ValueError(f"Each leaf must be a node in [0, {nodes}).")

    def load(self, folder: Path) -> Self:
        """Read back what ``save`` wrote; see :meth:`prmcal.Calibrator.load`."""
        super().load(folder)
        shape = [self.layers, self.heads, self.width]
        if self.shape_ != shape:
            raise DataError(
                f"{folder} holds a head of (layers, heads, width) {self.shape_}, not {shape}: it was saved with other "
                "arguments. Fit it again."
            )
        return self

    def _head(self) -> TemperatureHead:
        import torch

        from prmcal.registry.calibrators.ats.head import make_head

        head = make_head(self.mean_, self.scale_, self.width, self.layers, self.heads, self.seed)
        torch.nn.utils.vector_to_parameters(torch.tensor(self.weights_), head.parameters())
        return head

    def _check_same_prm(self, features: HiddenStates, trees: Sequence[QuestionTree]) -> None:
        """Another PRM has states of another width, or another state at the first token."""
        name, width = self.plugin_name or type(self).__qualname__, features.states.shape[1]
        if width != len(self.mean_):
            raise PluginFailedError(
                f"The calibrator '{name}' was fitted to hidden states of width {len(self.mean_)}, and these have width "
                f"{width}: they are another PRM's. Fit it to this PRM."
            )
        roots = features.states[sorted({each.root for each in trees})]
        if len(self.root_) and not _all_near(roots, self.root_):
            raise PluginFailedError(
                f"The calibrator '{name}' was fitted to hidden states that begin with another one than these: they are "
                "another PRM's, or of another prompt. Fit it to this PRM."
            )


def _moments(
    features: HiddenStates, trees: Sequence[QuestionTree]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the trees' states, each of shape (width,); 1 for what does not vary.

    One tree at a time: the states of a large PRM are many gigabytes, and no second copy of them is made.
    """
    count = sum(len(each.tree) for each in trees)
    mean = sum(features.states[each.tree.input_ids].sum(0, dtype=np.float64) for each in trees) / count
    squares = sum(((features.states[each.tree.input_ids] - mean) ** 2).sum(0) for each in trees)
    if not np.all(np.isfinite(squares)):
        raise ValueError("Each hidden state must be finite.")
    scale = np.sqrt(squares / count)
    return mean, np.where(scale > 1e-6 * np.maximum(np.abs(mean), 1e-30), scale, 1.0)


def _common_root(roots: NDArray[np.float32]) -> NDArray[np.float64]:
    """The state with which all questions begin; none if they differ or are too few to tell."""
    root = roots.mean(0, dtype=np.float64)
    return root if len(roots) >= _ROOTS_TO_KNOW_A_PRM and _all_near(roots, root) else np.empty(0)


def _all_near(roots: NDArray[np.float32], root: NDArray[np.float64]) -> bool:
    """Whether they are the same but for rounding: in bfloat16 that is more than a percent."""
    return bool(np.all(np.linalg.norm(roots - root, axis=1) <= _SAME_ROOT * np.linalg.norm(root)))


def _batches(trees: Sequence[QuestionTree]) -> Iterator[list[QuestionTree]]:
    """Trees of like size together, about `_BATCH_NODES` nodes at a time with their padding."""
    batch: list[QuestionTree] = []
    for tree in sorted(trees, key=lambda each: -len(each.tree)):
        if batch and len(batch[0].tree) * (len(batch) + 1) > _BATCH_NODES:
            yield batch
            batch = []
        batch.append(tree)
    if batch:
        yield batch
