"""The base of PRMs whose score is read at the last token of a prefix, on any engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats32
from prmcal.errors import FaultyPluginError
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.prms.token_tree import TokenizedTrajectory, whole_sequences
from prmcal.steps import behind_thought, join_steps, split_steps

if TYPE_CHECKING:
    import torch


class TokenPRM(PRM):
    """A PRM whose score is read at the last token of a prefix."""

    max_tokens: int = 4096
    """Maximum length of a prefix in tokens, marker included. A longer prefix is flagged, never cut."""
    read_thoughts: bool = True
    """True if the PRM reads the thoughts of a reasoning model."""

    @abstractmethod
    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix with its marker."""

    @abstractmethod
    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        """The log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""

    def _values(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        """Work like `_forward`, also if a batch does not fit into the memory."""
        return self._forward(sequences)

    def _batches(self, trajectories: Sequence[TokenizedTrajectory]) -> list[list[list[int]]]:
        """Batches of token trees of indices into `trajectories`. By default one batch, for engines with their own."""
        return [[list(range(len(trajectories)))]]

    def _log_odds_of_whole(
        self,
        sequences: Sequence[Sequence[Sequence[int]]],
        heads: Callable[[Sequence[tuple[int, ...]]], Sequence[Any]],
        log_odds: Callable[[torch.Tensor], torch.Tensor],
    ) -> Floats32:
        """Work like `_forward`, with one pass over each sequence that is not the beginning of another.

        `heads` returns the outputs of the head by the places of the tokens of such sequences, and `log_odds` maps
        outputs to log-odds.
        """
        sequences_of_ids = [tuple(ids) for of_tree in sequences for ids in of_tree]
        if not sequences_of_ids:
            return np.empty(0, dtype=np.float32)
        import torch

        longer_sequences = whole_sequences(sequences_of_ids)
        distinct = list(dict.fromkeys(longer_sequences.values()))
        pooled = dict(zip(distinct, heads(distinct), strict=True))
        ends = np.stack([pooled[longer_sequences[ids]][len(ids) - 1] for ids in sequences_of_ids])
        return np.asarray(log_odds(torch.from_numpy(ends)).numpy(), dtype=np.float32)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score all prefixes of some trajectories of one question; see :meth:`prmcal.PRM.score`."""
        request = ScoringRequest(question, tuple(tuple(steps) for steps in trajectories))
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`."""
        # Equal trajectories are scored once. In this order, neighbours share the most tokens.
        distinct = sorted(
            {(number, steps) for number, request in enumerate(requests) for steps in request.trajectories}
        )
        prefix_ids = cache(self.prefix_ids)
        trajectories = [self._tokenized(requests[number], steps, prefix_ids) for number, steps in distinct]
        scores = {
            key: _prefix_scores(trajectory, values)
            for key, trajectory, values in zip(distinct, trajectories, self._log_odds_of(trajectories), strict=True)
        }
        return [[scores[number, steps] for steps in request.trajectories] for number, request in enumerate(requests)]

    def _log_odds_of(self, trajectories: Sequence[TokenizedTrajectory]) -> list[Floats32]:
        """The log-odds at the end of every sequence of each trajectory."""
        log_odds = [np.empty(0, dtype=np.float32)] * len(trajectories)
        for batch in self._batches(trajectories):
            values = self._values([[ids for index in tree for ids in trajectories[index].sequences] for tree in batch])
            for index in (index for tree in batch for index in tree):
                count = len(trajectories[index].sequences)
                log_odds[index], values = values[:count], values[count:]
        return log_odds

    def prefix_ids(self, question: str, steps: Sequence[str]) -> tuple[int, ...] | None:
        """Return the token ids of a prefix, read at the last one; None if there are more than `max_tokens`."""
        ids = tuple(self.tokenize_prefix(question, self.read_steps(steps)))
        if not ids:
            raise FaultyPluginError(
                f"The PRM '{self.plugin_name}' returned no tokens for a prefix of {len(steps)} steps."
            )
        return ids if len(ids) <= self.max_tokens else None

    def read_steps(self, steps: Sequence[str]) -> Sequence[str]:
        """Return the steps of a prefix for the PRM: without thoughts, the steps after the thought."""
        return steps if self.read_thoughts else split_steps(behind_thought(join_steps(steps)))

    def _tokenized(
        self,
        request: ScoringRequest,
        steps: tuple[str, ...],
        prefix_ids: Callable[[str, tuple[str, ...]], tuple[int, ...] | None],
    ) -> TokenizedTrajectory:
        return TokenizedTrajectory.of([prefix_ids(request.question, prefix) for prefix in request.prefixes(steps)])


def _prefix_scores(trajectory: TokenizedTrajectory, values: Floats32) -> PrefixScores:
    over_long = np.array([ids is None for ids in trajectory.prefixes])
    logit = np.full(len(over_long), np.nan, dtype=np.float32)
    logit[~over_long] = values
    reward = scipy.special.expit(logit.astype(np.float64))
    return PrefixScores(logit, reward, over_long, trajectory.size)
