"""The contract of a PRM: it scores every prefix of a trajectory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import HiddenStates, PrefixScores, ScoringRequest
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.network import DEFAULT_PATIENCE, patiently

__all__ = ["PRM"]


class PRM(Plugin, ABC):
    """A process reward model. TransformersPRM is a base for models on transformers and needs less code.

    Attributes
    ----------
    patience : float
        Seconds for which a PRM whose network fails is asked again before its cells fail. A constructor argument of this
        name replaces the class's own. It is not part of the job keys.
    """

    patience: float = DEFAULT_PATIENCE

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
            For each trajectory the scores of x_{0:0}, x_{0:1}, ..., x_{0:T}. The score of a prefix must not depend on
            the steps after it, nor on other prefixes that are scored with it.
        """

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions. Override it if the PRM is faster in batches across questions."""
        return [
            patiently(self, partial(self.score, request.question, request.trajectories))
            for request in requests
        ]

    def hidden_states(self, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
        """Return the hidden states at every token of every prefix. Override it if the PRM has them.

        Calibrators with ``reads = "hidden"`` use them.

        Returns
        -------
        list of HiddenStates
            One for each request. Its rows are the prefixes x_{0:0}, ..., x_{0:T} of the first trajectory, then those of
            the second, and so on; with `whole_only` they are the whole trajectories. Prefixes that are too long for the
            PRM are left out.

        Raises
        ------
        PluginFailedError
            If the PRM has no hidden states.
        """
        raise PluginFailedError(
            "it does not define 'hidden_states'. Derive it from TransformersPRM, or leave out calibrators that read "
            "hidden states."
        )

    def close(self) -> None:
        """Free the model's memory. Called when no more work needs the model."""
