"""The contract of a strategy: how many samples each question gets, and which answer is chosen from them.

A search is a strategy that generates step by step and continues the prefixes that the PRM prefers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts.plugin import Count, Plugin
from prmcal.registry.contracts.pool import SCORES, Pool, Reads

OnceFor = Literal["data", "prm", "calibrator", "level"]

SWEPT_TARGETS = tuple(float(-np.expm1(-x)) for x in np.geomspace(0.05, 36, 24))
"""Values of C from .05 to almost 1, at which a targeted strategy is run for its curve."""


DEFAULT_STRATEGY = "learned stopping"
"""The strategy that answers new questions unless a cell names another one."""
First = Literal["full", "adaptive"]
Rank = Literal["original", "calibrated"]
Finished = Literal["kept", "pruned"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """The largest number of samples and the target with which a strategy is run."""

    samples: int
    """N, the samples per question of the fixed budget. No strategy may use more. At most the pool's M."""
    target: float | None = None
    """Target probability C in (0, 1); None if the strategy is not `targeted`."""


@dataclass(frozen=True, eq=False)
class Answered:
    """The expected results of a strategy for each question.

    The budget of a strategy is the mean of `samples`. It has an interval, since other questions would need other
    numbers of samples. For `fixed` and `estimated_from`, it does not follow from `samples`.
    """

    accuracy: Floats
    """Probability in [0, 1] that the final answer is correct. Of shape (questions,), float64."""
    samples: Floats
    """Expected number of trajectories that are drawn, in (0, N]. Of shape (questions,), float64."""
    pass_at_samples: Floats | None = None
    """Probability that at least one of the drawn trajectories is correct: the accuracy of a perfect choice. Of shape
    (questions,), float64."""
    fixed: bool = False
    """True if `samples` is one number that is known in advance, as in best-of-n. The budget then is not an estimate and
    has no uncertainty."""
    estimated_from: Floats | None = None
    """Numbers of samples from which the budget is estimated, if every question gets their mean. They must have the mean
    of `samples`. Of shape (questions,), float64."""
    order_error: Floats | None = None
    """Standard error of `accuracy` that comes from a limited number of random orders; None if `accuracy` is exact. Of
    shape (questions,), float64."""


class Strategy(Plugin, ABC):
    """The base of PoolStrategy and SearchStrategy. Derive from one of these."""

    reads: tuple[Reads, ...] = ()
    """The arrays that it reads: any of :data:`prmcal.registry.contracts.pool.READS`. This decides `once_for`. The value
    may depend on the arguments of the constructor."""
    targeted: ClassVar[bool] = False
    """True if it has a target probability C. The strategy is then run once for every C of the grid."""
    reference: ClassVar[bool] = False
    """True for a reference, which uses facts that nobody knows of a new question, such as its success rate. New
    questions cannot be answered with it."""

    @property
    def once_for(self) -> OnceFor:
        """The combination of plugins for which the strategy is run once.

        "data": each LLM and data set. "prm": also each PRM, if it reads scores. "calibrator": also each calibrator, for
        a search that ranks by its median. "level": also each level beta of the calibrator, if it reads `rewards`.
        """
        if "rewards" in self.reads:
            return "level"
        return "prm" if {"scores", "step_scores"}.intersection(self.reads) else "data"


class PoolStrategy(Strategy):
    """A strategy that draws whole trajectories. Its results follow from the pool, without further generation."""

    tuned: bool = False
    """True if it chooses something, such as a threshold, from the trajectories of the calibration questions. `tune` is
    then called once before `answer` and `sweep`."""

    @property
    def in_league(self) -> bool:
        """True if it has a curve of accuracy against samples: if it has a target C, or its own ``sweep``."""
        return self.targeted or type(self).sweep is not PoolStrategy.sweep

    def tune(self, pool: Pool, allowance: Allowance) -> None:
        """Choose parameters, such as a threshold, from data. None may be chosen from the pool that ``answer`` receives.

        Parameters
        ----------
        pool : Pool
            The trajectories of the calibration questions, with the arrays in `reads`. It may have fewer trajectories
            for each question than the pool of the test. The calibrator of its rewards was fitted to the same questions,
            so the rewards look better than on other questions.
        allowance : Allowance
            The samples and the target with which the strategy will be run.
        """

    def sweep(self, pool: Pool, allowance: Allowance) -> tuple[Answered, ...]:
        """Return the results at many points between the smallest and the largest budget.

        They are the curve of accuracy against samples by which strategies are compared at equal cost. A targeted
        strategy is run for 24 values of C, any other one once. Override it if another argument decides the budget.
        No point is chosen from data: each is a variant that could have been fixed in advance.

        Parameters
        ----------
        pool, allowance As for ``answer``. The target of the allowance is ignored.
        """
        targets = SWEPT_TARGETS if self.targeted else (None,)
        return tuple(self.answer(pool, Allowance(allowance.samples, target)) for target in targets)

    @abstractmethod
    def answer(self, pool: Pool, allowance: Allowance) -> Answered:
        """Return the expected results of the strategy over all ways to draw trajectories from the pool.

        Trajectories are drawn without replacement. A result must not depend on random numbers: use a closed form if
        there is one (:mod:`prmcal.registry.strategies.best_of`). Otherwise use the random orders that all strategies
        share (:mod:`prmcal.registry.strategies.orders`), and return their standard error as `order_error`. A rule that
        draws one trajectory after another only needs `follow` of :class:`prmcal.SequentialRule`.

        Parameters
        ----------
        pool : Pool
            The pool with the arrays in `reads`.
        allowance : Allowance
            The largest number of samples, and the target probability C.
        """

    def needed(self, pool: Pool, drawn: Ints, allowance: Allowance) -> Ints:
        """Return how many trajectories each new question needs before the strategy decides again.

        It is called before the first trajectory of new questions is drawn, and again when they have as many as it
        returned. By default, it is the number of samples of ``answer``, rounded up. This is right for a strategy that
        decides before the first trajectory. Override it if the strategy looks at trajectories before it draws more.

        Parameters
        ----------
        pool : Pool
            N trajectories of each question, in the order in which they are drawn. The last ones are not drawn yet:
            they have no answer, and their scores and rewards are NaN. Nothing is graded, so `correct` is all False.
        drawn : ndarray of shape (questions,), int64
            How many trajectories of each question are drawn.
        allowance : Allowance

        Returns
        -------
        ndarray of shape (questions,), int64
            In [1, N]. A question for which it is not above `drawn` is finished.
        """
        expected = self.answer(pool, allowance).samples
        return np.clip(np.ceil(expected - 1e-9), 1, allowance.samples).astype(np.int64)

    def choose(self, pool: Pool, allowance: Allowance) -> int:
        """Return the index of a trajectory with the answer to one new question when all of its trajectories are drawn.

        By default, its answer is the one that ``answer`` gives with the highest probability for all of these
        trajectories. For each candidate, ``answer`` computes the accuracy as if this candidate were right.

        Parameters
        ----------
        pool : Pool
            The trajectories of one question that were drawn. Nothing is graded.
        allowance : Allowance
            The allowance of ``needed``.
        """
        with_all = Allowance(pool.size, allowance.target)
        return most_probable(pool, lambda graded_pool: float(self.answer(graded_pool, with_all).accuracy[0]))


def most_probable(pool: Pool, chance: Callable[[Pool], float]) -> int:
    """Return a trajectory of one question with the answer that is most probably given.

    Among equally probable answers, the first drawn counts. Among the trajectories with this answer, it is the
    best-scored one, or the first one without scores.

    Parameters
    ----------
    pool : Pool
        The trajectories of one question in the order in which they were drawn.
    chance : callable
        Maps a pool in which one answer is graded as right to the accuracy in [0, 1].
    """
    answers = pool.answers[0]
    in_order = [int(answer) for answer in dict.fromkeys(answers.tolist())]
    chances = [chance(pool.with_grades(pool.answers == answer)) for answer in in_order]
    # Equal chances can differ in their last digits.
    best = int(np.argmax(np.array(chances) >= max(chances) - 1e-9))
    trajectories = np.flatnonzero(answers == in_order[best])
    if not pool.has("scores"):
        return int(trajectories[0])
    scores = pool.scores[0][trajectories]
    return int(trajectories[np.argmax(np.where(np.isnan(scores), -np.inf, scores))])


@dataclass(eq=False)
class SearchStrategy(Strategy):
    """Beam search over steps (section 2 of the paper). A subclass decides the width of the search.

    In each round every unfinished prefix gets some continuations, the PRM scores them, and the best prefixes are kept.
    A prefix is finished if its last step has a final answer, if the LLM ended it with its end token, or if it has the
    largest length. A finished prefix is not continued, and it takes one of the K places. An empty step that ends at a
    stop string leaves its prefix as it was. The search ends when all kept prefixes are finished, and the best of them
    is the answer.

    The paper's searches, as in its authors' code, have ``first="full"``, ``rank="calibrated"``, ``finished="pruned"``,
    ``every=5`` and ``most_steps=100`` (``main_infer_beamsearch_vllm.py`` and ``utils/ias.py`` of
    github.com/azizanlab/instance-adaptive-scaling), and with ``step_tokens=2048`` and ``context_tokens=4096``. Two
    things differ. There, prefixes with equal rewards keep their order. Here, the PRM's score orders them. There, a box
    that is not closed also finishes a prefix.

    Attributes
    ----------
    reads : tuple of {"scores", "rewards"}
        What `expand` and `keep` are given: see there. It always contains "scores".
    baseline : str
        The registered search of fixed width. The budget of this search is divided by its budget. It is built with this
        search's `settings`.
    """

    reads = SCORES
    baseline: ClassVar[str] = "beam search"

    width: Count = 8
    """K, the largest number of prefixes that are kept."""
    expansions: Count = 8
    """M, the largest number of continuations of each prefix."""
    every: Count = 1
    """Steps of a continuation before the PRM scores it. The authors use 5 (Appendix E of the paper)."""
    most_steps: Count = 64
    """After this number of steps, a trajectory is finished, with or without an answer. Empty steps count."""
    step_tokens: Count | None = None
    """The most tokens of a step. By default `max_tokens` of the sampling."""
    context_tokens: Count | None = None
    """The tokens at which a trajectory is finished. Its prompt counts, if the LLM reports the tokens of prompts. By
    default `max_tokens` of the sampling, and the prompt does not count."""
    first: First = "full"
    """The number of trajectories in the first round. "full": always K x M, as in the authors' code, so that IAS adapts
    from the second round on. "adaptive": the strategy decides from the reward of the bare question, as if K copies were
    candidates. Easy questions then cost less."""
    rank: Rank = "original"
    """The rank of prefixes. "original": by the PRM's score, so that a search of fixed width is run once for each PRM,
    and all calibrators differ from it in the width only. "calibrated": the median of the calibrated rewards, and the
    score where these are equal. The authors' code ranks so if the PRM is calibrated, also with a fixed width. A search
    of fixed width is then run once for each calibrator. A calibrator that is an increasing function of the score gives
    the same ranking."""
    finished: Finished = "pruned"
    """What happens to a finished prefix that is not among the best of a round. "pruned": it is dropped like any other
    prefix, as in the authors' code. "kept": it remains a candidate in all later rounds, so that no finished answer is
    lost. The results are seldom different."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that all searches have, by name."""
        return {argument.name: getattr(self, argument.name) for argument in fields(SearchStrategy)}

    @property
    def once_for(self) -> OnceFor:
        """As for other strategies, but per calibrator if the calibrated median ranks and no level beta is read."""
        base_choice = super().once_for
        return "calibrator" if base_choice == "prm" and self.rank == "calibrated" else base_choice

    def expand(self, rewards: Floats, target: float | None) -> int:
        """Return how many continuations each unfinished prefix gets, in [1, M]. By default M.

        Parameters
        ----------
        rewards : ndarray of shape (kept,), float64
            Rewards of the kept prefixes, the best first, finished ones too. These are the calibrated rewards at the
            level beta or, without "rewards" in `reads`, the rewards by which the prefixes are ranked. NaN where a
            prefix is too long for the PRM.
        target : float or None
            Target probability C in (0, 1), if the strategy is `targeted`.
        """
        return self.expansions

    def keep(self, rewards: Floats, target: float | None) -> int:
        """Return how many of the best prefixes are kept, in [1, K]. By default K.

        Parameters
        ----------
        rewards : ndarray of shape (candidates,), float64
            The highest rewards of all candidates, at most K of them, in descending order with NaN last. They are the
            rewards of `expand`. Candidates with high rewards do not always rank high.
        target : float or None
            As in `expand`.
        """
        return self.width
