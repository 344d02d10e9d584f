"""The PRM of the nano models with two faults: it gives NaN for some questions, and its server goes away for others.

It writes each question that it scores to the file in the environment variable ``FAULTY_PRM_LOG``, if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
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
    """Note the question, and show one of the faults."""
    if log := os.environ.get("FAULTY_PRM_LOG"):
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{request.question}\n")
    if GONE in request.question:
        raise NoAnswerError("The server of the PRM does not answer.")
    if NAN in request.question:
        values[:] = np.nan
