"""The PRM of the nano models with two faults: it gives NaN for some questions, and its server goes away for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal import HiddenStates, PrefixScores, ScoringRequest, prm
from prmcal.errors import NoAnswerError
from prmcal.registry.prms.qwen import QwenPRM

NAN, GONE = "give NaN", "go away"


@prm("faulty-nano-prm")
class FaultyNanoPRM(QwenPRM):
    """The nano PRM, except for questions with "give NaN" or "go away"."""

    checkpoint = "nano:prm"

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        found = super().score_batch(requests)
        for request, scores in zip(requests, found, strict=True):
            for each in scores:
                spoil(request, each.logit)
        return found

    def hidden_states(self, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
        found = super().hidden_states(requests)
        for request, each in zip(requests, found, strict=True):
            spoil(request, each.states)
        return found


def spoil(request: ScoringRequest, values: NDArray[Any]) -> None:
    """Show one of the faults."""
    if GONE in request.question:
        raise NoAnswerError("The server of the PRM does not answer.")
    if NAN in request.question:
        values[:] = np.nan
