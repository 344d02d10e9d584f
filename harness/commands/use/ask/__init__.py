"""``prmcal ask``: answer new questions with a calibrated PRM.

one_question   a question and its answer on the terminal
many           questions from a file, with their answers in another
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM

__all__ = ["Named", "no_garbage_collection"]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Do not look for garbage inside, nor ever among what was created inside: the large libraries stay loaded.

    This halves the time that one question takes. Most of it is saved in imports and at the end of the process.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if before:
            gc.enable()


@dataclass(frozen=True)
class Named:
    """The calibrated PRM that a command names: the arguments of :func:`prmcal.load`."""

    source: str
    cell: str | None = None
    llm: str | None = None
    prm: str | None = None
    calibrator: str | None = None

    def load(self) -> CalibratedPRM:
        """Load it."""
        # Without it, threads of torch that wait for work spin, which makes a busy machine several times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        from prmcal.harness.inference.sources.loading import load

        return load(self.source, self.cell, llm=self.llm, prm=self.prm, calibrator=self.calibrator)
