"""The base class of PRMs that read prefixes as token ids: what is read, and how the scores go back to the prefixes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.prms.packing import TokenizedTrajectory
from prmcal.steps import join_steps, split_steps
from prmcal.thoughts import behind_thought

__all__ = ["TokenPRM"]


class TokenPRM(PRM):
    """A PRM whose score is read at the last token of a prefix.

    Attributes
    ----------
    max_tokens : int
        Maximum length of a prefix in tokens, marker included. A longer prefix is flagged, never cut.
    read_thoughts : bool
        Whether the PRM reads the thoughts of a reasoning model.
    """

    max_tokens: int = 4096
    read_thoughts: bool = True

    @abstractmethod
    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix with its marker."""

    @abstractmethod
    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """The log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""

    def _batches(self, trajectories: Sequence[TokenizedTrajectory]) -> list[list[list[int]]]:
        """Batches of token trees of indices into `trajectories`. By default one, for what makes its own batches."""
        return [[list(range(len(trajectories)))]]

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score all prefixes of some trajectories of one question; see :meth:`prmcal.PRM.score`."""
        request = ScoringRequest(question, tuple(tuple(steps) for steps in trajectories))
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`.

        Raises
        ------
        PluginFailedError
            If there is not one score per prefix, or if the model cannot be read or asked.
        """
        # Equal trajectories are scored once. In this order, neighbours share the most tokens.
        distinct = sorted(
            {(number, steps) for number, request in enumerate(requests) for steps in request.trajectories}
        )
        prefix_ids = cache(self.prefix_ids)
        trajectories = [self._read(requests[number], steps, prefix_ids) for number, steps in distinct]
        scores: dict[tuple[int, tuple[str, ...]], PrefixScores] = {}
        for batch in self._batches(trajectories):
            values = self._forward(
                [[ids for i in tree for ids in trajectories[i].sequences] for tree in batch]
            )
            for i in (i for tree in batch for i in tree):
                count = len(trajectories[i].sequences)
                scores[distinct[i]] = _prefix_scores(trajectories[i], values[:count])
                values = values[count:]
        return [
            [scores[number, steps] for steps in request.trajectories]
            for number, request in enumerate(requests)
        ]

    def prefix_ids(self, question: str, steps: Sequence[str]) -> tuple[int, ...] | None:
        """Return the token ids of a prefix, or None if it is longer than `max_tokens`.

        The last token is where the score is read.
        """
        ids = tuple(self.tokenize_prefix(question, self.read_steps(steps)))
        if not ids:
            raise PluginFailedError(
                f"The PRM '{self.plugin_name}' returned no tokens for a prefix of {len(steps)} steps."
            )
        return ids if len(ids) <= self.max_tokens else None

    def read_steps(self, steps: Sequence[str]) -> Sequence[str]:
        """Return the steps of a prefix that the PRM reads: without thoughts, those behind the thought."""
        return steps if self.read_thoughts else split_steps(behind_thought(join_steps(steps)))

    def _read(
        self,
        request: ScoringRequest,
        steps: tuple[str, ...],
        prefix_ids: Callable[[str, tuple[str, ...]], tuple[int, ...] | None],
    ) -> TokenizedTrajectory:
        first = len(steps) if request.whole_only else 0
        counts = range(first, len(steps) + 1)
        return TokenizedTrajectory.of([prefix_ids(request.question, steps[:count]) for count in counts])


def _prefix_scores(trajectory: TokenizedTrajectory, values: NDArray[np.float32]) -> PrefixScores:
    from scipy.special import expit

    over_long = np.array([ids is None for ids in trajectory.prefixes])
    logit = np.full(len(over_long), np.nan, dtype=np.float32)
    logit[~over_long] = values
    return PrefixScores(
        logit=logit, reward=expit(logit.astype(np.float64)), over_long=over_long, tokens=trajectory.size
    )
