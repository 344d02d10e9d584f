"""Confidence-guided early stopping (CGES, 2025), as a plugin: stop when one answer has enough of the posterior mass.

prmcal check examples/cges.py
prmcal run grid.yaml --plugin examples/cges.py      # with `- CGES` in the strategies of the grid
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from prmcal import Drawn, Outcome, SequentialRule, first_at_least, strategy

_SMALLEST = 1e-6


@strategy("CGES")
class Cges(SequentialRule):
    """Stop when the posterior probability of an answer is at least the threshold, and give this answer.

    A sample with the answer a and the confidence c has the likelihood c if a is the right answer, and (1 - c) / K if
    another one is. The right answer is one of the K that were drawn so far, or one that was not, all equally likely
    beforehand. K is counted anew after each draw. A sample without an answer, or that is too long for the PRM, says
    nothing.

    The paper takes the confidence from token probabilities or a reward model. Here it is the probability that a sample
    with this score is right, by Platt scaling on the calibration questions. It stops for drawn answers only: in the
    paper, also if the right answer is probably one that was not drawn.
    """

    citation = "Aghazadeh et al. (2025), arXiv:2511.02603"
    reads = ("scores",)
    tuned = True
    budget = ("threshold", tuple(1 - float(doubt) for doubt in np.geomspace(0.7, 1e-9, 24)))

    def __init__(self, threshold: float = 0.95) -> None:
        self.threshold = threshold

    def tune(self, pool, allowance) -> None:
        """Fit the confidence; see :meth:`prmcal.PoolStrategy.tune`."""
        is_scored = np.isfinite(pool.scores)
        scores, is_right = pool.scores[is_scored], pool.correct[is_scored]
        self.middle, self.spread = (scores.mean(), scores.std() or 1.0) if len(scores) else (0.0, 1.0)
        # Without a finite sample of both kinds, this keeps the slope finite (Platt, 1999).
        label = np.where(is_right, (is_right.sum() + 1) / (is_right.sum() + 2), 1 / ((~is_right).sum() + 2))

        def loss(line: np.ndarray) -> float:
            odds = line[0] * (scores - self.middle) / self.spread + line[1]
            return float((np.logaddexp(0.0, odds) - label * odds).sum())

        self.line = minimize(loss, np.zeros(2)).x

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when an answer has enough mass."""
        scores, answers = drawn.values["scores"], drawn.answers
        chance = expit(self.line[0] * (scores - self.middle) / self.spread + self.line[1])
        odds = logit(np.clip(chance, _SMALLEST, 1 - _SMALLEST))
        cast = (answers[..., None] == np.arange(answers.max(initial=0) + 1)) & np.isfinite(odds)[..., None]
        votes = cast.cumsum(axis=1)
        has_votes = votes > 0
        evidence = np.where(cast, odds[..., None], 0.0).cumsum(axis=1)
        evidence += votes * np.log(np.maximum(has_votes.sum(axis=2), 1))[..., None]
        evidence = np.where(has_votes, evidence, -np.inf)
        with_other = np.concatenate([evidence, np.zeros_like(evidence[..., :1])], axis=2)
        mass = softmax(with_other, axis=2)[..., :-1].max(axis=2)
        return Outcome(first_at_least(mass, points), right_of_leaders(drawn, evidence))


def right_of_leaders(drawn: Drawn, evidence: np.ndarray) -> np.ndarray:
    """Return how right the answer with most evidence is, of shape (orders, N). Equal ones are equally likely."""
    answers, is_right = drawn.answers, drawn.pool.correct[drawn.question][drawn.orders]
    has_answer = answers >= 0
    cast = np.bincount(answers[has_answer], minlength=evidence.shape[2])
    share = np.bincount(answers[has_answer], is_right[has_answer], minlength=evidence.shape[2]) / np.maximum(cast, 1)
    rounded = np.round(evidence, 9)
    leads = (rounded == rounded.max(axis=2, keepdims=True)) & np.isfinite(evidence)
    return leads @ share / np.maximum(leads.sum(axis=2), 1)
