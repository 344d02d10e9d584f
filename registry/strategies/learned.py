"""A rule that learns the value of one more sample from calibration questions. It may be below 0."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from prmcal.arrays import Floats
from prmcal.errors import DataError
from prmcal.registry.contracts.plugin import ShareOrZero
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.strategies.orders import count_votes, first_draws
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule
from prmcal.registry.strategies.stopping import ScoreEvidence

_PRICES = (*(-float(price) for price in np.geomspace(0.3, 1e-4, 23)), 0.0)
_ORDERS, _FOLDS = 32, 5
_FARTHEST = 4.0
"""Log-odds beyond this limit count as the limit."""
_TINY = 1e-9
_RIDGE = 2.0
"""The weight of the coefficients of later draws, in questions."""


@dataclass(eq=False)
class LearnedStopping(SequentialRule):
    """Stop when one more sample is worth less than its price, as calibration questions say, and vote or take the best.

    The state after t draws is described by the highest and the mean chance of the trajectories (Platt scaling of their
    scores), and by three shares of votes: of the leading answer, of its lead over the second, and of the answer of the
    best-scored trajectory. Three functions of the state are learned: the gains of the vote and of the vote weighted by
    chances over the best-scored trajectory, and the gain of going on over stopping,

        D_t = E[right at the end - price x (draws until then) | state after t draws] - P(right | it stops at t).

    They have terms up to the second order, and are fitted for t = N, N - 1, ..., 1 by least squares in random orders of
    the calibration questions (Longstaff and Schwartz, 2001). The end is where the rule itself stops, after at least t +
    1 draws. The rule stops if D_t is 0 or less. So it stops where more samples make the answer worse, even if they cost
    nothing.

    So many coefficients would flatter themselves on few questions. Therefore the decisions of the later draws, on which
    D_t builds, come from a fit to the other four fifths of the questions. The coefficients of t are drawn towards those
    of t + 1 with the weight of two questions, and the last coefficients towards 0. No more samples are drawn than a
    calibration question has trajectories, since nothing is known beyond. Without answers there is no vote.
    """

    citation = "Longstaff and Schwartz (2001), Review of Financial Studies 14"
    reads = ("scores",)
    tuned = True

    budget = ("-price", _PRICES)
    price: ShareOrZero = 0.005
    """The probability of a right answer that one sample must add. In [0, 1)."""

    def tune(self, pool: Pool, allowance: Allowance) -> None:
        """Learn the value of one more draw and of votes; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.prices_ = (*_PRICES, -self.price)
        try:
            self.voting_ = len(pool.answers) > 0
        except DataError:  # Nothing has an answer.
            self.voting_ = False
        orders = first_draws(pool.size, min(allowance.samples, pool.size))[:_ORDERS]
        draws = [Drawn(pool, question, orders, self.reads) for question in range(pool.questions)]
        states, rights = map(np.stack, zip(*map(self._states_and_rights, draws), strict=True))
        fold = np.random.default_rng(0).permutation(pool.questions) % min(_FOLDS, pool.questions)
        # The last row of coefficients is fitted to all questions, and each other one without a fold.
        weights = (fold != np.arange(fold.max() + 2)[:, None]).astype(np.float64)
        costs = -np.array(self.prices_)[:, None, None]
        picks, more, end = [np.zeros(())], [np.zeros(())], None
        for draw in range(states.shape[2] - 1, -1, -1):
            terms, rights_of_draw = _terms(states[:, :, draw]), np.moveaxis(rights[:, :, draw], -1, 0)
            picks.append(_coefficients(terms, rights_of_draw[1:] - rights_of_draw[0], weights, picks[-1]))
            now = _picked(_values(terms, picks[-1][fold]), rights_of_draw)
            gain = np.zeros((len(costs), *now.shape)) if end is None else end - costs - now
            more.append(_coefficients(terms, gain, weights, more[-1]))
            end = now + np.where(_values(terms, more[-1][fold]) > 0, gain, 0.0)
        self.picks_, self.more_ = (np.stack([fits[-1] for fits in steps[:0:-1]]) for steps in (picks, more))

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop where one more sample is worth less than its price."""
        draws = min(drawn.orders.shape[1], len(self.more_))
        states, rights = self._states_and_rights(replace(drawn, orders=drawn.orders[:, :draws]))
        terms = _terms(states.swapaxes(0, 1))
        places = [self.prices_.index(point) for point in points]
        rights_of_answer = _picked(_values(terms, self.picks_[:draws]), rights.T)
        stops = _values(terms, self.more_[:draws, places]) <= 0
        stops[:, -1] = True
        return Outcome(np.argmax(stops, axis=1) + 1, rights_of_answer.T)

    def _states_and_rights(self, drawn: Drawn) -> tuple[Floats, Floats]:
        """Return the states, and whether best, vote and weighted vote are right, both of shape (orders, N, ...)."""
        chance = np.nan_to_num(self.evidence_.chance(drawn.in_pool["scores"]), nan=0.0)
        chances, count = chance[drawn.orders], np.arange(1, drawn.orders.shape[1] + 1)
        best = np.maximum.accumulate(chances, axis=1)
        odds = np.clip(logit(np.clip(best, _TINY, 1 - _TINY)), -_FARTHEST, _FARTHEST) / _FARTHEST
        states, rights = [odds, np.cumsum(chances, axis=1) / count], [drawn.right_if_best()]
        if not self.voting_:
            return np.stack(states, axis=-1), np.stack(rights, axis=-1)
        answers, votes = drawn.answers, drawn.votes()
        answers_in_pool, correct = drawn.pool.answers[drawn.question], drawn.pool.correct[drawn.question]
        leader = np.maximum.accumulate(np.where(chances == best, count - 1, 0), axis=1)
        of_best = np.take_along_axis(answers, leader, axis=1)
        same = (answers[:, None] == of_best[..., None]) & (count <= count[:, None])
        states += [votes.first / count, (votes.first - votes.second) / count]
        states.append(np.where(of_best >= 0, same.sum(axis=2), 0) / count)
        rights += [votes.right, count_votes(answers_in_pool, correct, drawn.orders, chance).right]
        return np.stack(states, axis=-1), np.stack(rights, axis=-1)


def _terms(states: Floats) -> Floats:
    """Return 1, all states, and all products of two, of shape (..., terms)."""
    with_one = np.concatenate([np.ones((*states.shape[:-1], 1)), states], axis=-1)
    left, right = np.triu_indices(with_one.shape[-1])
    return np.asarray(with_one[..., left] * with_one[..., right], dtype=np.float64)


def _coefficients(terms: Floats, targets: Floats, weights: Floats, next_coefficients: Floats) -> Floats:
    """Return coefficients (parts, targets, terms) by least squares, pulled towards the coefficients of the next draw.

    Terms have the shape (questions, orders, terms), and targets (targets, questions, orders). `weights`, of shape
    (parts, questions), are the questions' weights in each part.
    """
    orders = terms.shape[1]
    squares = np.einsum("wq,qij->wij", weights, np.einsum("qoi,qoj->qij", terms, terms)) / orders
    products = np.einsum("wq,kqi->wki", weights, np.einsum("kqo,qoi->kqi", targets, terms)) / orders
    squares += _RIDGE * np.eye(terms.shape[-1])
    solution = np.linalg.solve(squares[:, None], (products + _RIDGE * next_coefficients)[..., None])
    return np.asarray(solution[..., 0], dtype=np.float64)


def _values(terms: Floats, coefficients: Floats) -> Floats:
    """Return the values of functions, of shape (functions, n, ...), from (n, ..., terms) and (n, functions, terms)."""
    return np.asarray(np.einsum("noi,nki->kno", terms, coefficients), dtype=np.float64)


def _picked(better: Floats, rights: Floats) -> Floats:
    """Return how right the pick is that has the highest value. The value of the first pick is 0."""
    pick = np.argmax(np.concatenate([np.zeros_like(rights[:1]), better]), axis=0)
    return np.asarray(np.take_along_axis(rights, pick[None], axis=0)[0], dtype=np.float64)
