"""The calibrator `ats`: adaptive temperature scaling (Xie et al., 2024), a temperature for each prefix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.heads import check_width
from prmcal.registry.calibrators.logit import Temperature
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.contracts.plugin import Count, FiniteFromZero, FinitePositive, Seed, ShareOrZero
from prmcal.registry.prms.token_tree import batch_by_size

if TYPE_CHECKING:
    from prmcal.registry.calibrators.ats_network import QuestionTree

_TREE_NODES = 1024
"""Largest number of nodes in a tree. Attention costs the square of it. Smaller trees repeat more of a question."""

_BATCH_NODES = 4096


@dataclass(eq=False)
class AdaptiveTemperatureScaling(Calibrator):
    """Divide the logit by a temperature T(x) that a small transformer predicts from the PRM's hidden states.

    The calibrated reward is sigmoid(logit / T(x)). Xie et al. (2024, "Calibrating Language Models with Adaptive
    Temperature Scaling") predict a temperature for each token with one decoder block on the last hidden states of a
    language model. Appendix E.3 of the paper adapts this to the score of a PRM, without further details.

    Here T(x) is read at the last token of a prefix, like the PRM's score. It lies in [1/100, 100]. A new head predicts
    T = 1, so that the calibrated reward is the PRM's own. Fitting first sets the last bias of the head so that T is the
    best single temperature, as in the calibrator ``temperature``. Then it trains the whole head.

    A temperature moves a reward towards or away from 1/2, but never across 1/2. A prefix that the PRM scores above 1/2
    always has a calibrated reward above 1/2. Where the success probability is on the other side, the best possible
    prediction of ATS is 1/2.

    Attributes
    ----------
    weights_ : ndarray of shape (parameters,), float32
        The head's weights, in the order of its parameters.
    shape_ : list of int
        Layers, heads and width of the head that has these weights.
    epoch_ : int
        The epoch that was kept. 0 means the single temperature.
    mean_, scale_ : ndarray of shape (width of the states,), float64
        Mean and standard deviation of the calibration states. All states are standardised by them.

    Notes
    -----
    The differences from Xie et al., and the reasons:

    - The loss is the cross-entropy of k successes of n follow-ups. Xie et al. use selective smoothing: they smooth the
      labels of tokens that the model predicted wrongly. With soft labels, no prefix is simply right or wrong, and the
      labels themselves tell how much to smooth.
    - The block is narrower than the PRM: a projection reduces the width of the states first. The block of Xie et al. is
      as wide as their model (4096, 0.2 billion weights), and is trained on 52,000 texts. Here there are some hundreds
      of calibration questions.
    - States are standardised before the projection, since a few dimensions of a language model's states are much larger
      than the others. States are normalised again before the last layer.
    - Temperatures are bounded smoothly on both sides. Xie et al. bound them from below only, at 1/10.
    - Training starts from the best single temperature. On a small calibration set, there are too few gradient steps to
      reach it. The single temperature is also the right prediction if the states carry no information.
    - Xie et al. train for 2 epochs with a learning rate of 5e-5. The defaults here were chosen on held-out calibration
      questions.

    All prefixes of a question are read in one pass over the tree of their tokens. Fitting uses float32 and is
    reproducible to the bit with the same number of threads. Prediction uses float64, so that the reward of a prefix
    alone and in a batch agree to within 1e-12.
    """

    citation = "Xie et al. (2024), EMNLP, arXiv:2409.19817"
    reads = "hidden"

    layers: Count = 1
    """The number of decoder blocks."""
    heads: Count = 4
    """The number of attention heads in a block."""
    width: Count = 64
    """The width of the blocks, a multiple of twice the heads."""
    epochs: Count = 10
    """The number of passes over the calibration questions."""
    learning_rate: FinitePositive = 1e-3
    """The initial learning rate of AdamW. It decays to 0 along a cosine."""
    batch_size: Count = 8
    """Questions per step."""
    weight_decay: FiniteFromZero = 0.1
    """The weight decay of all matrices."""
    held_out: ShareOrZero = 0.2
    """Share of the questions, in [0, 1), that the head is not trained on. The epoch with the lowest loss on them is
    kept, or the single temperature if it has a lower loss than every epoch. With 0, the head is trained on all
    questions, and the last epoch is kept."""
    seed: Seed = 0
    """The seed of the initial weights, of the choice of held-out questions, and of the order of the questions."""

    def __post_init__(self) -> None:
        self.reading_passes = self.epochs + 2  # Two are for the mean and the standard deviation.

    def check_arguments(self) -> None:
        """Raise ValueError if the width cannot be divided among the heads."""
        if self.width % (2 * self.heads):
            raise ValueError(
                "The 'width' parameter must be a multiple of twice the 'heads', "
                f"{2 * self.heads}. Got {self.width} instead."
            )

    def fit(self, features: HiddenStates, k: Ints, n: Ints) -> Self:
        """Train the head on the success counts."""
        from prmcal.registry.calibrators.ats_network import cut_trees, make_head, train_head
        from prmcal.registry.calibrators.networks import flat_weights

        self.check_calibration_data(features, k, n)
        trees = cut_trees(features, _TREE_NODES)
        mean, scale = _moments(features, trees)
        head = make_head(mean, scale, self.width, self.layers, self.heads, self.seed)
        head.set_temperature(Temperature(logit=True).fit(features.logit, k, n).temperature_)
        self.epoch_ = train_head(head, features, trees, k, n, self)
        self.weights_ = flat_weights(head)
        self.shape_ = [self.layers, self.heads, self.width]
        self.mean_, self.scale_ = mean, scale
        return self

    def predict(self, features: HiddenStates) -> Floats:
        """Return sigmoid(logit / T(x)), of shape (rows, 1)."""
        temperatures = self.temperatures(features)
        rewards: Floats = scipy.special.expit(features.logit / temperatures)
        return rewards[:, None]

    def temperatures(self, features: HiddenStates) -> Floats:
        """Return T(x) of each prefix, in [0.01, 100], of shape (rows,). Raises the same errors as ``predict``."""
        import torch

        from prmcal.registry.calibrators.ats_network import cut_trees, log_temperatures_of_rows, make_head
        from prmcal.registry.calibrators.networks import with_weights

        self.check_fitted()
        self.check_features(features)
        trees = cut_trees(features, _TREE_NODES)
        check_width(self, features, len(self.mean_))
        layers, heads, width = self.shape_
        head = with_weights(make_head(self.mean_, self.scale_, width, layers, heads, self.seed), self.weights_)
        log_temperatures = np.empty(len(features))
        with torch.no_grad():
            for places in batch_by_size([len(tree.tree) for tree in trees], _BATCH_NODES):
                batch = [trees[place] for place in places]
                rows = np.concatenate([tree.rows for tree in batch])
                log_temperatures[rows] = log_temperatures_of_rows(head, features.states, batch).numpy()
        if not np.all(np.isfinite(log_temperatures)):
            raise ValueError("Each hidden state must be finite.")
        return np.exp(log_temperatures)


def _moments(features: HiddenStates, trees: "Sequence[QuestionTree]") -> tuple[Floats, Floats]:
    """Mean and standard deviation of the trees' states, each of shape (width,).

    The standard deviation of a constant dimension is 1. Only one tree at a time is copied, since the states of a large
    PRM take many gigabytes.
    """
    count = sum(len(tree.tree) for tree in trees)
    mean = sum(features.states[tree.tree.input_ids].sum(0, dtype=np.float64) for tree in trees) / count
    squares = sum(((features.states[tree.tree.input_ids] - mean) ** 2).sum(0) for tree in trees)
    if not np.all(np.isfinite(squares)):
        raise ValueError("Each hidden state must be finite.")
    scale = np.sqrt(squares / count)
    return mean, np.where(scale > 1e-6 * np.maximum(np.abs(mean), 1e-30), scale, 1.0)
