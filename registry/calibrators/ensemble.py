"""Calibrators on hidden states: `ensemble`, as in BayesianPRM, and `monotone-quantile`, in the manner of CondOT."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Bools, Floats, Floats32, Ints
from prmcal.registry.calibrators.beta_regression import beta_parameters
from prmcal.registry.calibrators.heads import HeadCalibrator, held_out_rows
from prmcal.registry.contracts import plugin

_HALVINGS = 40
_SIZES = (0.1, 1e4)
_ROWS = 1024


def weighted_quantiles(values: Floats, weights: Floats, levels: Sequence[float]) -> Floats:
    """Return quantiles of weighted points, of shape (rows, levels), at levels in (0, 1).

    A point is the quantile at the middle of its share of the weight. In between, quantiles are linear in the level.
    Values and weights have the shape (rows, points). The weights of a row sum to 1.
    """
    order = np.argsort(values, axis=1, kind="stable")
    ascending, shares = (np.take_along_axis(array, order, axis=1) for array in (values, weights))
    middles = np.cumsum(shares, axis=1) - shares / 2
    return np.stack([np.interp(levels, place, value) for place, value in zip(middles, ascending, strict=True)])


def fit_mixture_size(means: Floats, weights: Floats, k: Ints, n: Ints) -> float:
    """Return the size of the Beta distributions, in [0.1, 10000], that makes k of n likeliest.

    Each row has Beta distributions with these `means` and `weights`, of shape (rows, points), and one size for all.
    """
    low, high = map(np.log, _SIZES)

    def loss(log_size: float) -> float:
        a, b = beta_parameters(means, float(np.exp(log_size)))
        log_likelihoods = scipy.special.betaln(k[:, None] + a, (n - k)[:, None] + b) - scipy.special.betaln(a, b)
        return -float(scipy.special.logsumexp(log_likelihoods, axis=1, b=weights).sum())

    return float(np.exp(scipy.optimize.minimize_scalar(loss, bounds=(low, high), method="bounded").x))


def beta_mixture_quantiles(means: Floats, weights: Floats, size: float, levels: Sequence[float]) -> Floats:
    """Return quantiles of mixtures of Beta distributions of one size, in [0, 1], of shape (rows, levels).

    The quantiles are found by halving [0, 1] 40 times.
    """
    quantiles = np.empty((len(means), len(levels)))
    for first_row in range(0, len(means), _ROWS):
        rows = slice(first_row, first_row + _ROWS)
        a, b = beta_parameters(means[rows], size)
        for column, level in enumerate(levels):
            low, high = np.zeros(len(a)), np.ones(len(a))
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                below = (weights[rows] * scipy.special.betainc(a, b, middle[:, None])).sum(1) < level
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            quantiles[rows, column] = (low + high) / 2
    return quantiles


@dataclass(eq=False)
class Ensemble(HeadCalibrator):
    """Train many heads on the hidden state, and weigh them for each prefix by their predictions.

    First, heads LayerNorm, Linear, GELU, Linear are trained on the counts k of n of most of the calibration questions.
    The heads differ in their initial weights and in the questions that they see. Then the heads stay as they are, and a
    network of the same form predicts a weight for each head, from the state and the predictions of all heads. The
    network is trained on the other questions. Its loss is the mean of sum_m w_m CE(mu_m; k, n) plus `divergence` times
    KL(w, equal weights), where CE is the cross-entropy of the n follow-ups, and mu_m is the prediction of head m.

    The levels are weighted quantiles of the heads, or quantiles of a mixture of Beta distributions around them. Any
    level is possible. The point estimate is the weighted mean.

    Attributes
    ----------
    heads_, beliefs_ : ndarray of shape (parameters,), float32
        The weights of the heads and of the network that weighs them, in the order of their parameters.
    shape_ : list of int
        The numbers of heads and of hidden units.
    size_ : float
        The size of the Beta distributions; 1 and not used with ``spread="heads"``.

    Notes
    -----
    The optional random prior networks of the authors' code are left out. BayesianPRM's evaluation tries several values
    of b2 on the test questions and reports the best; here b2 is fixed before.

    The spread between heads shrinks with more calibration data, while the success probabilities of prefixes that look
    alike keep their spread. So with ``spread="heads"``, low quantiles are too high, above all for hard prefixes.
    """

    citation = "after BayesianPRM, github.com/zq2r/BaPRM"
    known_by = "code only; not a reproduction"

    heads: plugin.Count = 20
    """The number of heads, M."""
    width: plugin.Count = 256
    """Hidden units of a head, and of the network that weighs them."""
    held_out: plugin.ShareOrZero = 0.2
    """The share of the calibration questions, in [0, 1), that the weights are trained on. With 0, all weights are
    equal. Test questions are never used."""
    bootstrap: plugin.ShareOrOne = 0.8
    """The share of the remaining questions that a head sees, in (0, 1]."""
    spread: Literal["heads", "mixture"] = "heads"
    """``heads`` is the spread between the heads, as in BayesianPRM. ``mixture`` adds the spread that no head can
    predict: each head is the mean of a Beta distribution, whose size makes the counts of the held-out questions
    likeliest. See the notes."""
    conservative: plugin.FinitePositive | None = None
    """A number b2 above 0 multiplies each weight by exp(-mu_m / b2), and so prefers heads with low predictions; 0.1 in
    the code of BayesianPRM. None does not. Do not choose it from results on test questions."""
    divergence: plugin.FiniteFromZero = 0.1
    """The strength of the pull towards equal weights, from 0."""
    epochs: plugin.Count = 10
    """Passes over the calibration prefixes, in both stages."""
    learning_rate: plugin.FinitePositive = 1e-3
    """The initial learning rate of AdamW. It decays to 0 along a cosine."""
    batch_size: plugin.Count = 256
    """Prefixes per step."""
    weight_decay: plugin.FiniteFromZero = 0.1
    """The weight decay of all matrices."""
    components: plugin.Count = 256
    """States that are wider are projected to this many principal components."""
    seed: plugin.Seed = 0
    """The seed of everything random."""

    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Train the heads on most questions, and the weights on the others."""
        import torch

        from prmcal.registry.calibrators import networks

        held_out = held_out_rows(questions, self.held_out, self.seed)
        with networks.one_thread(self.seed):
            heads = networks.Heads(self.heads, inputs.shape[1], self.width)
            heads.last_bias.data += networks.log_odds_of_all(k, n)
            is_seen = self._training_rows(questions, ~held_out)
            networks.train_rows(heads, "heads", self, heads.loss, (inputs, k, n, is_seen), ~held_out)
            beliefs = networks.BeliefNetwork(self.heads, inputs.shape[1], self.width)
            if held_out.any():
                with torch.no_grad():
                    log_odds = heads(torch.from_numpy(inputs.astype(np.float32))).numpy()
                loss = partial(beliefs.loss, divergence=self.divergence)
                networks.train_rows(beliefs, "weights of the heads", self, loss, (inputs, log_odds, k, n), held_out)
        self.heads_, self.beliefs_ = networks.flat_weights(heads), networks.flat_weights(beliefs)
        self.shape_ = [self.heads, self.width]
        self.size_ = 1.0
        if self.spread == "mixture":
            rows = held_out if held_out.any() else ~held_out
            means, weights = self._means_and_weights(inputs[rows])
            self.size_ = fit_mixture_size(means, weights, k[rows], n[rows])

    def mean_and_quantiles(self, inputs: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the weighted mean, of shape (rows,), and the weighted quantiles, of shape (rows, levels)."""
        means, weights = self._means_and_weights(inputs)
        mean = (weights * means).sum(1)
        if self.spread == "mixture":
            return mean, beta_mixture_quantiles(means, weights, self.size_, levels)
        return mean, weighted_quantiles(means, weights, levels)

    def _training_rows(self, questions: Ints, fit_rows: Bools) -> Floats32:
        """1 where a head sees a row, of shape (rows, heads). Each head sees whole questions, at least one."""
        numbers, index = np.unique(questions, return_inverse=True)
        question_indices = np.unique(index[fit_rows])
        count = max(1, round(self.bootstrap * len(question_indices)))
        random = np.random.default_rng(self.seed)
        is_seen = np.zeros((len(numbers), self.heads), dtype=np.float32)
        for head in range(self.heads):
            is_seen[random.permutation(question_indices)[:count], head] = 1
        return is_seen[index]

    def _means_and_weights(self, inputs: Floats) -> tuple[Floats, Floats]:
        """The predictions of the heads and their weights, each of shape (rows, heads)."""
        import torch

        from prmcal.registry.calibrators import networks

        count, width = self.shape_
        with networks.one_thread(0), torch.no_grad():
            heads = networks.with_weights(networks.Heads(count, inputs.shape[1], width), self.heads_)
            beliefs = networks.with_weights(networks.BeliefNetwork(count, inputs.shape[1], width), self.beliefs_)
            tensor = torch.from_numpy(inputs)
            log_odds = heads(tensor)
            logarithms = beliefs(tensor, torch.sigmoid(log_odds)).numpy()
        means: Floats = scipy.special.expit(log_odds.numpy())
        if self.conservative is not None:
            logarithms = logarithms - means / self.conservative
        return means, scipy.special.softmax(logarithms, axis=1)


@dataclass(eq=False)
class MonotoneQuantile(HeadCalibrator):
    """Learn a quantile function Q(level | hidden state) of the success probability that cannot cross, at all levels.

    A small network predicts the log-odds of the quantiles at the levels 0, 1/32, ..., 1: one of these quantiles, and
    the positive steps between neighbours. In between, log-odds are linear in the level. So quantiles rise with the
    level for every prefix, and any level is possible.

    **This is no reproduction.** Ma, Hadfield-Menell and Greenewald (2026) learn such a function by conditional optimal
    transport (CondOT, Bunne et al., 2022, arXiv:2206.14262), with a minimax game between convex networks. In one
    dimension, the optimal map from the uniform distribution *is* the quantile function, so the same class of
    functions can be trained directly, without the game. Only the abstract of the paper was known.

    Attributes
    ----------
    network_ : ndarray of shape (parameters,), float32
        The network's weights, in the order of its parameters.
    width_, epoch_ : int
        The hidden units of this network, and the epoch that was kept.

    Notes
    -----
    **p and k/n.** A quantile that is trained by the pinball loss on rates k/n is a quantile of k/n, which spreads more
    than p and has only n + 1 values. With p from Beta(2, 3) and n = 8, the .1-quantile of p is above 24% of the rates,
    and not above 10%. IAS needs p. So by default, the network is trained on the likelihood of the counts: k is binomial
    given p, and p is Q(u) for a level u that is uniform on (0, 1), here the middles of the 32 intervals. The noise of
    the counts is then not learned.

    With ``loss="pinball"``, levels are drawn at random in each step, and rates are spread evenly over their cells: the
    label is (k + v) / (n + 1), with v uniform on (0, 1). The loss is half of the CRPS.
    """

    citation = "after Ma et al. (2026), arXiv:2605.06785"
    known_by = "abstract only; not a reproduction"

    loss: Literal["likelihood", "pinball"] = "likelihood"
    """The aim of learning; see the notes. ``likelihood`` learns the distribution of the success probability p, and
    ``pinball`` of the success rate k/n."""
    width: plugin.Count = 64
    """Hidden units."""
    epochs: plugin.Count = 30
    """Passes over the calibration prefixes."""
    learning_rate: plugin.FinitePositive = 3e-3
    """The initial learning rate of AdamW. It decays to 0 along a cosine."""
    batch_size: plugin.Count = 128
    """Prefixes per step."""
    weight_decay: plugin.FiniteFromZero = 0.1
    """The weight decay of all matrices."""
    held_out: plugin.ShareOrZero = 0.2
    """Share of the calibration questions, in [0, 1), that the network is not trained on. The epoch with the lowest loss
    on them is kept. With 0, the last epoch is kept."""
    components: plugin.Count = 256
    """States that are wider are projected to this many principal components."""
    seed: plugin.Seed = 0
    """The seed of the held-out questions, the initial weights, the order of the prefixes and the random levels."""

    def train(self, inputs: Floats, k: Ints, n: Ints, questions: Ints) -> None:
        """Train the network."""
        from prmcal.registry.calibrators import networks

        held_out = held_out_rows(questions, self.held_out, self.seed)
        with networks.one_thread(self.seed):
            network = networks.MonotoneNetwork(inputs.shape[1], self.width)
            network.linear.bias.data += networks.log_odds_of_all(k, n)
            loss = partial(network.loss, pinball=self.loss == "pinball")
            self.epoch_ = networks.train_rows(
                network, "quantile network", self, loss, (inputs, k, n), ~held_out, held_out
            )
        self.width_, self.network_ = self.width, networks.flat_weights(network)

    def mean_and_quantiles(self, inputs: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the mean over all levels, of shape (rows,), and Q(level | hidden state), of shape (rows, levels)."""
        import torch

        from prmcal.registry.calibrators import networks

        with networks.one_thread(0), torch.no_grad():
            network = networks.with_weights(networks.MonotoneNetwork(inputs.shape[1], self.width_), self.network_)
            knots = network(torch.from_numpy(inputs)).numpy()
        place = np.asarray(levels, dtype=np.float64) * (knots.shape[1] - 1)
        below = np.minimum(place.astype(np.int64), knots.shape[1] - 2)
        low, high = knots[:, below], knots[:, below + 1]
        rewards: Floats = scipy.special.expit(low + (place - below) * (high - low))
        mean: Floats = scipy.special.expit((knots[:, 1:] + knots[:, :-1]) / 2).mean(1)
        # Log-odds rise with the level, and the last bits of a product may not.
        return mean, np.maximum.accumulate(rewards, axis=1)
