"""The cycles of training in which the base models learn to solve and to judge, before anything is labelled."""

from __future__ import annotations

from dataclasses import dataclass, field

from prmcal.registry.nano.training.base import Lesson
from prmcal.registry.nano.training.chains import SLIP_MIX

__all__ = ["CYCLES", "Cycle"]


@dataclass(frozen=True)
class Cycle:
    """One warm-up and cosine decay.

    Attributes
    ----------
    name : str
        Of its model.
    source : str or None
        The cycle whose model it goes on with; None starts from random weights.
    seed : int
        Added to the run's seed for the batches.
    steps : int
        Batches.
    learning_rate : float
        Peak. Later cycles start lower: at the first one's rate they would forget.
    hint_weight, balanced_hints
        See `SolverAndJudge`.
    new_layers : int
        Layers to add on top.
    lesson : Lesson
        What the batches dwell on.
    """

    name: str
    source: str | None
    seed: int
    steps: int
    learning_rate: float
    hint_weight: float = 0.0
    balanced_hints: bool = False
    new_layers: int = 0
    lesson: Lesson = field(default_factory=Lesson)


CYCLES = (
    Cycle("base", None, seed=0, steps=3000, learning_rate=2e-3),
    Cycle("base-again", "base", seed=1, steps=2000, learning_rate=1e-3, hint_weight=0.5),
    Cycle("solver", "base-again", seed=3, steps=1200, learning_rate=6e-4),
    Cycle(
        "verifier",
        "base-again",
        seed=2,
        steps=1500,
        learning_rate=8e-4,
        hint_weight=1.0,
        new_layers=2,
        lesson=Lesson(SLIP_MIX),
    ),
    Cycle(
        "verifier-again",
        "verifier",
        seed=4,
        steps=1200,
        learning_rate=8e-4,
        hint_weight=1.0,
        balanced_hints=True,
        lesson=Lesson(SLIP_MIX, teach_wrong=True, first_only=True),
    ),
)
