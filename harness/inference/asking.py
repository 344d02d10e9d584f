"""Check what is asked of a calibrated PRM, before any model is used, and tune the strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference.models import Answerer
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.pool import PER_CALIBRATOR
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.contracts.strategy import PoolStrategy, Setting, Strategy
from prmcal.registry.plugins import strategies


class Settings(TypedDict, total=False):
    """The keyword arguments of :meth:`CalibratedPRM.solve` that say how a question is answered."""

    strategy: str | None
    target: float | None
    level: float | None
    max_samples: int | None
    abstain_below: float | None
    seed: int


@dataclass(frozen=True)
class Defaults:
    """The settings of a call that does not name its own.

    Attributes
    ----------
    strategy : PluginReference
    target, level : float or None
    max_samples : int
    known : mapping of str to PluginReference
        The strategies of the grid by their names, which may have arguments. Registered names work too.
    """

    strategy: PluginReference
    target: float | None
    level: float | None
    max_samples: int
    known: Mapping[str, PluginReference]


@dataclass(frozen=True)
class Asking:
    """A strategy, tuned with the calibration questions, and its settings.

    Attributes
    ----------
    strategy : Strategy
    name : str
    setting : Setting
        The largest number of samples, and the target probability C.
    level : float or None
        The level beta, if the strategy reads rewards at one level.
    abstain_below : float or None
        An answer is withheld if its probability is lower.
    seed : int
    """

    strategy: Strategy
    name: str
    setting: Setting
    level: float | None
    abstain_below: float | None
    seed: int


def asking_of(models: Answerer, defaults: Defaults, settings: Settings) -> Asking:
    """Check what is asked, and tune the strategy.

    Raises
    ------
    PrmcalError
        If there is no such strategy, it cannot answer new questions, or a setting does not fit it.
    """
    unknown = [name for name in settings if name not in Settings.__annotations__]
    if unknown:
        raise PrmcalError(
            f"There is no setting '{unknown[0]}'. The settings are: {', '.join(Settings.__annotations__)}."
        )
    strategy, target, level = settings.get("strategy"), settings.get("target"), settings.get("level")
    max_samples, abstain_below = settings.get("max_samples"), settings.get("abstain_below")
    reference = defaults.strategy
    if strategy is not None:
        reference = defaults.known.get(strategy) or PluginReference(strategy, strategy, {})
    built = reference.build(strategies)
    name = reference.name
    _check_usable(built, name)
    for word, share in (("target", target), ("level", level), ("abstain_below", abstain_below)):
        if share is not None and not 0 < share < 1:
            raise PrmcalError(f"'{word}' must be a number in (0, 1). Got {share} instead.")
    if max_samples is not None and max_samples < 1:
        raise PrmcalError(f"'max_samples' must be an int in [1, inf). Got {max_samples} instead.")
    if target is not None and not built.targeted:
        raise PrmcalError(
            f"The strategy '{name}' has no target probability C. Leave out 'target', or choose another strategy."
        )
    leveled = "rewards" in built.reads
    if level is not None and not leveled:
        raise PrmcalError(
            f"The strategy '{name}' reads rewards at no level beta. Leave out 'level', or choose another strategy, "
            "such as 'best-of-n + IAS'."
        )
    own_level = reward_level(models, level or defaults.level) if leveled else None
    setting = Setting(
        max_samples or defaults.max_samples,
        (target or defaults.target or 0.99) if built.targeted else None,
    )
    asking = Asking(built, name, setting, own_level, abstain_below, settings.get("seed", 0))
    _tune(models, asking)
    return asking


def check_question(question: Any) -> str:
    """Return a question. Raise PrmcalError if it is not a text, is empty, or cannot be written as UTF-8."""
    if not isinstance(question, str):
        raise PrmcalError(f"A question must be a text. Got {type(question).__name__} instead.")
    if not question.strip():
        raise PrmcalError("The question is empty.")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise PrmcalError("The question has half of a surrogate pair, which is not valid text.") from error
    return question


def check_steps(steps: Any) -> tuple[str, ...]:
    """Return the steps of a trajectory. Raise PrmcalError if they are not texts, or one of them is empty."""
    if isinstance(steps, str) or not all(isinstance(each, str) and each.strip() for each in steps):
        raise PrmcalError("The steps must be a list of texts that are not empty.")
    try:
        "".join(steps).encode()
    except UnicodeEncodeError as error:
        raise PrmcalError("A step has half of a surrogate pair, which is not valid text.") from error
    return tuple(steps)


def _check_usable(strategy: Strategy, name: str) -> None:
    if strategy.reference or "success" in strategy.reads:
        raise PrmcalError(
            f"The strategy '{name}' is a reference point, which uses what nobody knows of a new question. Choose "
            "another one."
        )
    if isinstance(strategy, PoolStrategy) and strategy.others:
        raise PrmcalError(
            f"The strategy '{name}' asks the LLM '{strategy.others[0]}' too, and one LLM is loaded here. Choose "
            "another strategy."
        )


def reward_level(models: Answerer, level: float | None) -> float:
    """Return the level beta of the rewards that are read, the lowest one by default.

    Raises
    ------
    PrmcalError
        If the calibrator does not predict it.
    """
    levels = models.rewarder.levels
    if level is None:
        return levels[0]
    if len(levels) > 1 and not np.isclose(levels, level).any():
        raise PrmcalError(
            f"The calibrator '{models.rewarder.name}' does not predict the level {level:g}. It predicts: "
            f"{', '.join(f'{each:g}' for each in levels)}."
        )
    return level


def _tune(models: Answerer, asking: Asking) -> None:
    strategy = asking.strategy
    if isinstance(strategy, SearchStrategy) or not isinstance(strategy, PoolStrategy) or not strategy.tuned:
        return
    if models.calibration is None:
        raise PrmcalError(
            f"The strategy '{asking.name}' is tuned with the calibration questions, which are not known here. Choose "
            "another one, such as 'best-of-n + IAS'."
        )
    reads: Sequence[str] = strategy.reads
    rewards = None
    if "rewards" in reads or PER_CALIBRATOR.intersection(reads):
        rewards = models.question_rewards
        if rewards is None:
            raise PrmcalError(
                f"The strategy '{asking.name}' is tuned with rewards of the calibration questions, whose texts are not "
                "known here. Choose another one, such as 'posterior vote'."
            )
    with plugin_guard("strategy", asking.name, "be tuned"):
        pool = models.calibration.pool(strategy.reads, rewards, models.rewarder.levels, asking.level)
        strategy.tune(pool, asking.setting)
