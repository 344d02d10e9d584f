"""The PRM of the nano models with two faults: it gives NaN for some questions, and its server goes away for others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prmcal import PrefixScores, ScoringRequest, prm
from prmcal.errors import NoAnswerError
from prmcal.registry.prms.qwen import QwenPRM

NAN, GONE = "give NaN", "go away"


@prm("faulty-nano-prm")
class FaultyNanoPRM(QwenPRM):
    """The nano PRM, except for questions with "give NaN" or "go away"."""

    checkpoint = "nano:prm"

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        found = super().score_batch(requests)
        if any(GONE in request.question for request in requests):
            raise NoAnswerError("The server of the PRM does not answer.")
        for request, scores in zip(requests, found, strict=True):
            if NAN in request.question:
                for each in scores:
                    each.logit[:] = np.nan
        return found
