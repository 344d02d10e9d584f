"""What calibrators receive besides an array: the PRM with its prefixes, and support for long fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.data import Prefix
from prmcal.registry.contracts.prm import PRM

__all__ = ["FitSupport", "ScoredPrefixes"]


def _ignore(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class FitSupport:
    """What a long fit may use. A short fit ignores it.

    Attributes
    ----------
    checkpoints : Path or None
        A folder that stays when the process ends. A fit that was interrupted finds its files there and must end with
        the same bytes as an uninterrupted fit. With None nothing is kept.
    report : callable
        Takes a short line for the progress display, such as ``"epoch 2 of 3, loss 0.081, 40 s left"``.
    """

    checkpoints: Path | None = None
    report: Callable[[str], None] = field(default=_ignore)


@dataclass(frozen=True)
class ScoredPrefixes:
    """Prefixes with their scores and the PRM that scored them, for calibrators that fine-tune the PRM.

    Attributes
    ----------
    prm : PRM
        The model. A calibrator that changes its weights must restore them.
    prefixes : tuple of Prefix
        One per row. The rows of a question are consecutive.
    logit : ndarray of float64, shape (rows,)
        The PRM's log-odds of success of each prefix.

    Examples
    --------
    A calibrator with ``reads = "prm"`` scores the prefixes again, with other weights:

    >>> from prmcal import Prefix, ScoringRequest
    >>> def scores(features):
    ...     requests = [ScoringRequest(each.question, (each.steps,), whole_only=True) for each in features.prefixes]
    ...     return [of_question[0].logit[-1] for of_question in features.prm.score_batch(requests)]
    >>> features = ScoredPrefixes(None, (Prefix("1+1?"), Prefix("1+1?", ("1+1=2",))), np.array([0.1, 0.9]))
    >>> len(features), features[np.array([False, True])].prefixes[0].steps
    (2, ('1+1=2',))
    """

    prm: PRM
    prefixes: tuple[Prefix, ...]
    logit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.prefixes)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> ScoredPrefixes:
        """Return some of the prefixes, with the same PRM."""
        chosen = np.arange(len(self.prefixes))[rows]
        return ScoredPrefixes(self.prm, tuple(self.prefixes[i] for i in chosen), self.logit[rows])
