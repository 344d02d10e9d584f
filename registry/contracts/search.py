"""The contract of a search: a strategy that generates step by step and continues the prefixes that the PRM prefers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from prmcal.arrays import Floats
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.contracts.pool import SCORES
from prmcal.registry.contracts.strategy import OnceFor, Strategy

First = Literal["full", "adaptive"]
Rank = Literal["original", "calibrated"]
Finished = Literal["kept", "pruned"]


@dataclass(eq=False)
class SearchStrategy(Strategy):
    """Beam search over steps (section 2 of the paper). A subclass decides the width of the search.

    In each round every unfinished prefix gets some continuations, the PRM scores them, and the best prefixes are kept.
    A prefix is finished if its last step has a final answer, if the LLM ended it with its end token, or if it is as
    long as it may be. A finished prefix is not continued, and it takes one of the K places. An empty step that ends at
    a stop string leaves its prefix as it was. The search ends when all kept prefixes are finished, and the best of them
    is the answer.

    The searches of the paper are those of its authors' code with ``first="full"``, ``rank="calibrated"``,
    ``finished="pruned"``, ``every=5`` and ``most_steps=100`` (``main_infer_beamsearch_vllm.py`` and ``utils/ias.py`` of
    github.com/azizanlab/instance-adaptive-scaling). Three things differ. There `max_tokens` limits each step, and here
    the whole trajectory. There prefixes with equal rewards keep their order, and here the PRM's score orders them.
    There a box that is not closed finishes a prefix too.

    Parameters
    ----------
    width : int, default=8
        K, the largest number of prefixes that are kept.
    expansions : int, default=8
        M, the largest number of continuations of each prefix.
    every : int, default=1
        Steps of a continuation before the PRM scores it. The authors use 5 (Appendix E of the paper).
    most_steps : int, default=64
        A trajectory for which this number of steps was sampled is finished, with or without an answer. Empty steps
        count.
    first : {"full", "adaptive"}, default="full"
        The number of trajectories that the first round begins. "full": always K x M, as in the authors' code, so that
        IAS adapts from the second round on. "adaptive": the strategy decides from the reward of the bare question, as
        if K copies of it were candidates. Easy questions then cost less.
    rank : {"original", "calibrated"}, default="original"
        What ranks the prefixes. "original": the PRM's score, so that a search of fixed width is run once for each PRM,
        and all calibrators differ from it in the width only. "calibrated": the median of the calibrated rewards, and
        the score where these are equal. The authors' code ranks so if the PRM is calibrated, also with a fixed width. A
        search of fixed width is then run once for each calibrator. A calibrator that is an increasing function of the
        score gives the same ranking.
    finished : {"kept", "pruned"}, default="pruned"
        What becomes of a finished prefix that is not among the best of a round. "pruned": it is dropped like any other
        prefix, as in the authors' code. "kept": it remains a candidate in all later rounds, so that no finished answer
        is lost. The results are seldom different.

    Attributes
    ----------
    reads : tuple of {"scores", "rewards"}
        What `expand` and `keep` are given: see there. It always contains "scores".
    baseline : str
        The registered search of fixed width whose budget this one's is divided by. It is built with this search's
        `settings`.
    """

    reads = SCORES
    baseline: ClassVar[str] = "beam search"

    width: Count = 8
    expansions: Count = 8
    every: Count = 1
    most_steps: Count = 64
    first: First = "full"
    rank: Rank = "original"
    finished: Finished = "pruned"

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that all searches have, by name."""
        return {each.name: getattr(self, each.name) for each in fields(SearchStrategy)}

    @property
    def once_for(self) -> OnceFor:
        """What it is run once for. The calibrated median ranks at no level beta, so it is run once per calibrator."""
        found = super().once_for
        return "calibrator" if found == "prm" and self.rank == "calibrated" else found

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
            rewards of `expand`. Candidates with high rewards are not always those that rank high.
        target : float or None
            As in `expand`.
        """
        return self.width
