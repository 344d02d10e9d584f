"""The training cycles in which the base models learn to solve and to judge, before any Monte Carlo labels exist."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.nano_training.examples.chains import SLIP_MIX
from tools.nano_training.stages.base import Lesson


@dataclass(frozen=True)
class Cycle:
    """One training run, with a warm-up and a cosine decay of the learning rate.

    Attributes
    ----------
    name : str
        The name of the trained model.
    source : str or None
        The cycle whose model is the start. None means random weights.
    seed : int
        Added to the pipeline's seed to draw the batches.
    steps : int
        The number of batches.
    learning_rate : float
        The peak. Later cycles have a lower peak, because at the rate of the first one the model forgets.
    hint_weight, balanced_hints
        See `SolverAndJudge`.
    new_layers : int
        The number of layers to add on top.
    lesson : Lesson
        The settings for the batches.
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
