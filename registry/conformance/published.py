"""Rewards that authors published for examples, and a check that a PRM reproduces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.models import PRM
from prmcal.registry.plugins import prms

_TOLERANCE = 0.03
"""The allowed difference of a reward. bfloat16 rounds differently on every machine, and some numbers are rounded."""


@dataclass(frozen=True)
class PublishedRewards:
    """An example with the published rewards of its steps.

    Attributes
    ----------
    plugin, checkpoint : str
        The PRM and the weights of these rewards.
    question : str
        The question of the example.
    steps : tuple of str
        The steps of the example.
    rewards : tuple of float
        The reward after each of the steps.
    source : str
        Where they are published.
    arguments : mapping
        The plugin's arguments for the authors' format.
    """

    plugin: str
    checkpoint: str
    question: str
    steps: tuple[str, ...]
    rewards: tuple[float, ...]
    source: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def check_published_rewards(plugin: PRM, example: PublishedRewards) -> None:
    """A PRM with these weights reproduces the published rewards. It is built again with the example's arguments."""
    plugin.close()
    reader = prms.create(plugin.plugin_name, **{**plugin.arguments, **example.arguments})
    rewards = reader.score(example.question, [example.steps])[0].reward[1:]
    reader.close()
    gap = float(np.abs(rewards - example.rewards).max())
    expect(
        gap < _TOLERANCE,
        "the rewards of for",
        value=_shown(example.rewards),
        value2=_shown(rewards),
        example=example,
        gap=gap,
    )


def _shown(rewards: Any) -> str:
    return " ".join(f"{reward:.4f}" for reward in rewards)


PUBLISHED = tuple(
    PublishedRewards(**{**each, "steps": tuple(each["steps"]), "rewards": tuple(each["rewards"])})
    for each in yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
)
"""There are no published rewards for skywork and rlhflow."""
