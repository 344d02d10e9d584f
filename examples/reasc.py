"""Reliability-aware adaptive self-consistency (ReASC, 2026), as a plugin: votes that are weighted by confidence.

prmcal check examples/reasc.py
prmcal run grid.yaml --plugin examples/reasc.py      # with `- ReASC` in the strategies of the grid
"""

import numpy as np
from scipy.special import betainc

from prmcal import Drawn, Outcome, SequentialRule, first_at_least, strategy


@strategy("ReASC")
class Reasc(SequentialRule):
    """Stop after one confident sample, or when the leading answer has far more confident votes than the second.

    The first sample is enough if its score is at least the gate. The gate is the larger of the mean score of the right
    samples of the calibration questions, and of the lowest score from which on the share `target` of them is right.
    Otherwise each sample adds max(1, exp(`strength` z)) to the votes of its answer, where z is its score in standard
    deviations from the mean of the calibration questions. With a and b votes of the leader and the runner-up, it stops
    when P(X > 1/2) is at least the confidence, where X ~ Beta(a + 1, b + 1), and answers with the leader.

    The paper's confidence is that of the tokens in the least certain tenth of a solution. Here it is the PRM's score.
    Its code is not public: how the two gates are joined is our reading. A sample without an answer has no vote, and one
    that is too long for the PRM has the vote 1.
    """

    citation = "Kim et al. (2026), Findings of ACL, arXiv:2601.02970"
    reads = ("scores",)
    tuned = True
    budget = ("confidence", tuple(1 - float(doubt) for doubt in np.geomspace(0.6, 1e-12, 24)))

    def __init__(self, confidence: float = 0.95, target: float = 0.9, strength: float = 0.7) -> None:
        self.confidence = confidence
        self.target = target
        self.strength = strength

    def tune(self, pool, allowance) -> None:
        """Measure the scores and the gate; see :meth:`prmcal.PoolStrategy.tune`."""
        is_scored = np.isfinite(pool.scores)
        scores, is_right = pool.scores[is_scored], pool.correct[is_scored]
        self.middle, self.spread = (scores.mean(), scores.std() or 1.0) if len(scores) else (0.0, 1.0)
        order = np.argsort(-scores, kind="stable")
        shares = is_right[order].cumsum() / np.arange(1, len(order) + 1)
        # Equal scores pass together.
        passing = (shares >= self.target) & (np.diff(scores[order], append=-np.inf) < 0)
        lowest = scores[order][passing].min(initial=np.inf)
        self.gate = max(lowest, scores[is_right].mean()) if is_right.any() else np.inf

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop at the gate, or when the leader is far enough ahead."""
        scores, answers = drawn.values["scores"], drawn.answers
        z = np.nan_to_num((scores - self.middle) / self.spread, nan=0.0)
        weight = np.maximum(1.0, np.exp(self.strength * z))
        cast = answers[..., None] == np.arange(max(int(answers.max(initial=0)) + 1, 2))
        votes = np.round(np.where(cast, weight[..., None], 0.0).cumsum(axis=1), 9)
        second, first = np.moveaxis(np.sort(votes, axis=2)[..., -2:], 2, 0)
        doubt = betainc(first + 1, second + 1, 0.5)
        doubt[:, 0] = np.where(scores[:, 0] >= self.gate, 0.0, doubt[:, 0])
        is_right, has_answer = drawn.pool.correct[drawn.question][drawn.orders], answers >= 0
        counts = np.bincount(answers[has_answer], minlength=votes.shape[2])
        share = np.bincount(answers[has_answer], is_right[has_answer], minlength=votes.shape[2]) / np.maximum(counts, 1)
        leads = (votes == first[..., None]) & (votes > 0)
        leaders = leads @ share / np.maximum(leads.sum(axis=2), 1)
        return Outcome(first_at_least(-doubt, tuple(point - 1 for point in points)), leaders)
