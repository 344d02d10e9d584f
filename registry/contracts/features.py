"""What calibrators that read more than one number per prefix are given: hidden states, or the PRM itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.data import Prefix

if TYPE_CHECKING:
    from prmcal.registry.contracts.prm import PRM

__all__ = ["FitSupport", "HiddenStates", "ScoredPrefixes"]


def _ignore(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class FitSupport:
    """What a long fit may use of its surroundings; a short one ignores it.

    Attributes
    ----------
    checkpoints : Path or None
        A folder that outlives the process. A fit that was killed finds there what it left, and must end with the
        same bytes as an uninterrupted one. None: keep nothing.
    report : callable
        Takes a short line for the progress display, such as ``"epoch 2 of 3, loss 0.081, 40 s left"``.
    """

    checkpoints: Path | None = None
    report: Callable[[str], None] = field(default=_ignore)


@dataclass(frozen=True)
class HiddenStates:
    """The PRM's hidden states of prefixes: a forest in which every path from a root to a leaf is one prefix.

    Prefixes of one question share their beginnings, and so do their states, since a token attends only to what is
    before it.

    Attributes
    ----------
    states : ndarray of float32, shape (nodes, width)
        The last layer's output at every token.
    parents : ndarray of int64, shape (nodes,)
        The token before, by its index, which is smaller; -1 at the first token of a question.
    leaves : ndarray of int64, shape (rows,)
        The node of each prefix's last token, where the PRM's score is read.
    logit : ndarray of float64, shape (rows,)
        The PRM's log-odds of success of each prefix.
    """

    states: NDArray[np.float32]
    parents: NDArray[np.int64]
    leaves: NDArray[np.int64]
    logit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> HiddenStates:
        """Some of the prefixes, over the same forest."""
        return HiddenStates(self.states, self.parents, self.leaves[rows], self.logit[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[HiddenStates]) -> HiddenStates:
        """One forest of several, their prefixes one after the other."""
        offsets = np.cumsum([0, *(len(part.states) for part in parts)])[:-1]
        return cls(
            states=np.concatenate([part.states for part in parts]),
            parents=np.concatenate(
                [
                    np.where(part.parents < 0, -1, part.parents + offset)
                    for part, offset in zip(parts, offsets, strict=True)
                ]
            ),
            leaves=np.concatenate(
                [part.leaves + offset for part, offset in zip(parts, offsets, strict=True)]
            ),
            logit=np.concatenate([part.logit for part in parts]),
        )


@dataclass(frozen=True)
class ScoredPrefixes:
    """Prefixes with their scores and the PRM that gave them, for calibrators that fine-tune it.

    Attributes
    ----------
    prm : PRM
        The model. Whoever changes its weights puts them back.
    prefixes : tuple of Prefix
        One per row; the rows of a question are neighbours.
    logit : ndarray of float64, shape (rows,)
        The PRM's log-odds of success of each prefix.
    """

    prm: PRM
    prefixes: tuple[Prefix, ...]
    logit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.prefixes)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> ScoredPrefixes:
        """Some of the prefixes, of the same PRM."""
        chosen = np.arange(len(self.prefixes))[rows]
        return ScoredPrefixes(self.prm, tuple(self.prefixes[i] for i in chosen), self.logit[rows])
