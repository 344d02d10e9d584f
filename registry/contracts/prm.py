"""The contract of a PRM: it scores every prefix of a trajectory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["PRM"]


class PRM(Plugin, ABC):
    """A process reward model. Models on transformers derive from TransformersPRM, which needs far less."""

    @abstractmethod
    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score all prefixes of some trajectories of one question.

        Parameters
        ----------
        question : str
            The question's text.
        trajectories : sequence of sequence of str
            Each trajectory as its steps x_1..x_T.

        Returns
        -------
        list of PrefixScores
            For each trajectory the scores of x_{0:0}, x_{0:1}, ..., x_{0:T}. The score of a prefix does not
            depend on the steps after it, nor on what else is scored with it.
        """

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions; a PRM that gains from batching across questions overrides this."""
        return [self.score(request.question, request.trajectories) for request in requests]

    def close(self) -> None:
        """Release the model's memory. Called when no more work needs it."""
