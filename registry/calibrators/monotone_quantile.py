"""The calibrator `monotone-quantile`: a conditional quantile function on hidden states, in the manner of CondOT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.heads import HeadCalibrator, held_out_rows
from prmcal.registry.contracts.plugin import Count, FiniteFromZero, FinitePositive, Seed, ShareOrZero


@dataclass(eq=False)
class MonotoneQuantile(HeadCalibrator):
    """Learn a quantile function Q(level | hidden state) of the success probability that cannot cross, at all levels.

    A small network predicts the log-odds of the quantiles at the levels 0, 1/32, ..., 1: one of them, and positive
    steps between neighbours. In between, log-odds are linear in the level. So quantiles rise with the level for every
    prefix, and any level can be asked for.

    **This is no reproduction.** Ma, Hadfield-Menell and Greenewald (2026) learn such a function by conditional optimal
    transport (CondOT, Bunne et al., 2022, arXiv:2206.14262), with a minimax game between convex networks. In one
    dimension, the optimal map from the uniform distribution *is* the quantile function, so the same class of
    functions can be trained directly, without the game. Only the abstract of the paper was known.

    Parameters
    ----------
    loss : {"likelihood", "pinball"}, default "likelihood"
        What is learned; see the notes. ``likelihood`` learns the law of the success probability p, ``pinball`` that of
        the success rate k/n.
    width : int, default 64
        Hidden units.
    epochs : int, default 30
        Passes over the calibration prefixes.
    learning_rate : float, default 3e-3
        The initial learning rate of AdamW. It decays to 0 along a cosine.
    batch_size : int, default 128
        Prefixes per step.
    weight_decay : float, default 0.1
        The weight decay of all matrices.
    held_out : float, default 0.2
        Share of the calibration questions, in [0, 1), that the network is not trained on. The epoch with the lowest
        loss on them is kept. With 0, the last epoch is kept.
    components : int, default 256
        States that are wider are projected to this many principal components.
    seed : int, default 0
        The seed of the held-out questions, the initial weights, the order of the prefixes and the random levels.

    Attributes
    ----------
    network_ : ndarray of shape (weights,), float32
        The network's weights, in the order of its parameters.
    width_, epoch_ : int
        The hidden units of this network, and the epoch that was kept.

    Notes
    -----
    **p and k/n.** A quantile that is trained by the pinball loss on rates k/n is a quantile of k/n, which spreads more
    than p and has only n + 1 values. With p from Beta(2, 3) and n = 8, the .1-quantile of p is above 24% of the rates,
    and not above 10%. IAS needs p. So by default, the network is trained on the likelihood of the counts: k is binomial
    given p, and p is Q(u) for a level u that is uniform on (0, 1), here the middles of the 32 intervals. The noise of
    the counts is then not part of what is learned.

    With ``loss="pinball"``, levels are drawn at random in each step, and rates are spread evenly over their cells: the
    label is (k + v) / (n + 1), with v uniform on (0, 1). The loss is half of the CRPS.
    """

    citation = "after Ma et al. (2026), arXiv:2605.06785"
    known_by = "abstract only; not a reproduction"

    loss: Literal["likelihood", "pinball"] = "likelihood"
    width: Count = 64
    epochs: Count = 30
    learning_rate: FinitePositive = 3e-3
    batch_size: Count = 128
    weight_decay: FiniteFromZero = 0.1
    held_out: ShareOrZero = 0.2
    components: Count = 256
    seed: Seed = 0

    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Train the network."""
        from prmcal.registry.calibrators.networks import (
            MonotoneNetwork,
            flat_weights,
            one_thread,
            train_rows,
        )

        held_out = held_out_rows(questions, self.held_out, self.seed)
        with one_thread(self.seed):
            network = MonotoneNetwork(inputs.shape[1], self.width)
            loss = partial(network.loss, pinball=self.loss == "pinball")
            self.epoch_ = train_rows(
                network, "quantile network", self, loss, (inputs, k, n), ~held_out, held_out
            )
        self.width_, self.network_ = self.width, flat_weights(network)

    def quantiles(self, inputs: Floats, levels: Sequence[float]) -> Floats:
        """Return Q(level | hidden state), of shape (rows, levels)."""
        import torch
        from scipy.special import expit

        from prmcal.registry.calibrators.networks import MonotoneNetwork, fitted, one_thread

        with one_thread(0), torch.no_grad():
            network = fitted(MonotoneNetwork(inputs.shape[1], self.width_), self.network_)
            knots = network(torch.from_numpy(inputs)).numpy()
        place = np.asarray(levels, dtype=np.float64) * (knots.shape[1] - 1)
        below = np.minimum(place.astype(np.int64), knots.shape[1] - 2)
        low, high = knots[:, below], knots[:, below + 1]
        rewards: Floats = expit(low + (place - below) * (high - low))
        # Log-odds rise with the level, and the last bits of a product may not.
        return np.maximum.accumulate(rewards, axis=1)
