"""Check what is asked of a calibrated PRM, before any model is used, and tune the strategy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prmcal.errors import PrmcalError
from prmcal.harness.inference.models import Answerer
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.storage.folder import first_problem
from prmcal.registry.contracts.pool import PER_CALIBRATOR
from prmcal.registry.contracts.strategy import PoolStrategy, Setting, Strategy
from prmcal.registry.plugins import strategies

Probability = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Target = Annotated[Probability, Field(description="The target probability C.")]
Level = Annotated[
    Probability,
    Field(description="The quantile level beta of the calibrated reward that decides the number of samples."),
]


class Settings(BaseModel):
    """The settings of answers in Python, by ``prmcal ask`` and over HTTP. What is left out is as in the grid."""

    model_config = ConfigDict(extra="forbid")

    target: Target | None = None
    level: Level | None = None
    max_samples: int | None = Field(default=None, ge=1, description="The largest number of samples.")
    mean_samples: float | None = Field(
        default=None, ge=1, description="The most samples of a question on average, for 'safe choice'."
    )
    abstain_below: Probability | None = Field(
        default=None,
        description="Do not answer if the probability that the answer is right is below this bound.",
    )
    strategy: str | None = Field(
        default=None,
        description="The strategy, by its name in `prmcal list strategy`.",
        examples=["best-of-n + IAS"],
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="The same seed gives the same samples.")


@dataclass(frozen=True)
class Asking:
    """A strategy, tuned with the calibration questions, and its settings."""

    strategy: Strategy
    name: str
    setting: Setting
    """The largest number of samples, and the target probability C."""
    level: float | None
    """The level beta, if the strategy reads rewards at one level."""
    abstain_below: float | None
    """An answer is withheld if its probability is lower."""
    seed: int


def asking_of(models: Answerer, given: Mapping[str, Any]) -> Asking:
    """Check the fields of :class:`Settings` that are given, and tune the strategy.

    Raise PrmcalError if there is no such strategy, it cannot answer new questions, or a setting does not fit it.
    """
    try:
        asked = Settings.model_validate(dict(given))
    except ValidationError as error:
        raise PrmcalError(first_problem(error.errors())) from None
    card, name = models.card, asked.strategy
    if name is None and asked.target is not None and card.strategy.plugin == "safe choice":
        name = "posterior vote"  # It has a target.
    reference = card.strategy if name is None else card.known.get(name) or PluginReference(name, name, {})
    if asked.mean_samples is not None:
        given_by_grid = {**reference.arguments, "mean_samples": asked.mean_samples}
        reference = PluginReference(reference.name, reference.plugin, given_by_grid)
    built: Strategy = reference.build(strategies)
    name = reference.name
    if built.reference or "success" in built.reads:
        raise PrmcalError(
            f"The strategy '{name}' is a reference point, which uses what nobody knows of a new question. Choose "
            "another one."
        )
    leveled = "rewards" in built.reads
    for word, fits, what in (
        ("target", built.targeted, "has no target probability C"),
        ("level", leveled, "reads rewards at no level beta"),
    ):
        if getattr(asked, word) is not None and not fits:
            raise PrmcalError(
                f"The strategy '{name}' {what}. Leave out '{word}', or choose another strategy, such as "
                "'best-of-n + IAS'."
            )
    level = reward_level(models, asked.level or card.level) if leveled else None
    target = (asked.target or card.target or 0.99) if built.targeted else None
    setting = Setting(asked.max_samples or card.max_samples, target)
    if isinstance(built, PoolStrategy) and built.tuned:
        _tune(models, built, name, setting, level)
    return Asking(built, name, setting, level, asked.abstain_below, asked.seed)


def check_question(question: Any) -> str:
    """Return a question. Raise PrmcalError if it is not a text, is empty, or cannot be written as UTF-8."""
    if not isinstance(question, str):
        raise PrmcalError(f"A question must be a text. Got {type(question).__name__} instead.")
    if not question.strip():
        raise PrmcalError("The question is empty.")
    _check_utf8(question)
    return question


def check_steps(steps: Any) -> tuple[str, ...]:
    """Return the steps of a trajectory. Raise PrmcalError if they are not texts, or one of them is empty."""
    if isinstance(steps, str) or not all(isinstance(each, str) and each.strip() for each in steps):
        raise PrmcalError("The steps must be a list of texts that are not empty.")
    _check_utf8("".join(steps))
    return tuple(steps)


def _check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PrmcalError("The text has half of a surrogate pair, so it is not valid.") from error


def reward_level(models: Answerer, level: float | None) -> float:
    """Return which of the levels beta is read, the lowest one by default. A point estimate is the same at every level.

    Raise PrmcalError if the calibrator does not predict it.
    """
    levels = models.levels
    if level is None:
        return levels[0]
    nearest = min(levels, key=lambda each: abs(each - level))
    if len(levels) > 1 and not np.isclose(nearest, level):
        raise PrmcalError(
            f"The calibrator '{models.card.calibrator.name}' does not predict the level {level:g}. It predicts: "
            f"{', '.join(f'{each:g}' for each in levels)}."
        )
    return nearest


def _tune(models: Answerer, strategy: PoolStrategy, name: str, setting: Setting, level: float | None) -> None:
    reads_rewards = "rewards" in strategy.reads or PER_CALIBRATOR.intersection(strategy.reads)
    rewards = models.question_rewards if reads_rewards else None
    if models.calibration is None or (reads_rewards and rewards is None):
        raise PrmcalError(
            f"The strategy '{name}' is tuned with the calibration questions, or with their rewards, which are not "
            "known here. Choose another one, such as 'best-of-n + IAS'."
        )
    with plugin_guard("strategy", name, "be tuned"):
        strategy.tune(models.calibration.tuning_pool(strategy.reads, rewards, models.levels, level), setting)
