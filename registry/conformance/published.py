"""Rewards that authors published for examples, and a check that a PRM reproduces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
        locals(),
        value=_shown(example.rewards),
        value2=_shown(rewards),
    )


def _shown(rewards: Any) -> str:
    return " ".join(f"{reward:.4f}" for reward in rewards)


_FLAMINGOS = (
    "Sue lives in a fun neighborhood.  One weekend, the neighbors decided to play a prank on Sue.  On Friday morning, "
    "the neighbors placed 18 pink plastic flamingos out on Sue's front yard.  On Saturday morning, the neighbors took "
    "back one third of the flamingos, painted them white, and put these newly painted white flamingos back out on "
    "Sue's front yard.  Then, on Sunday morning, they added another 18 pink plastic flamingos to the collection. At "
    "noon on Sunday, how many more pink plastic flamingos were out than white plastic flamingos?"
)
_FLAMINGO_STEPS = (
    "To find out how many more pink plastic flamingos were out than white plastic flamingos at noon on Sunday, we can "
    "break down the problem into steps. First, on Friday, the neighbors start with 18 pink plastic flamingos.",
    "On Saturday, they take back one third of the flamingos. Since there were 18 flamingos, (1/3 \\times 18 = 6) "
    "flamingos are taken back. So, they have (18 - 6 = 12) flamingos left in their possession. Then, they paint these "
    "6 flamingos white and put them back out on Sue's front yard. Now, Sue has the original 12 pink flamingos plus the "
    "6 new white ones. Thus, by the end of Saturday, Sue has (12 + 6 = 18) pink flamingos and 6 white flamingos.",
    "On Sunday, the neighbors add another 18 pink plastic flamingos to Sue's front yard. By the end of Sunday morning, "
    "Sue has (18 + 18 = 36) pink flamingos and 6 white flamingos.",
    "To find the difference, subtract the number of white flamingos from the number of pink flamingos: (36 - 6 = 30). "
    "Therefore, at noon on Sunday, there were 30 more pink plastic flamingos out than white plastic flamingos. The "
    "answer is (\\boxed{30}).",
)
_DUCKS = (
    "Janet\u2019s ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her "
    "friends every day with four. She sells the remainder at the farmers' market daily for $2 per fresh duck egg. How "
    "much in dollars does she make every day at the farmers' market?"
)
_DUCK_STEPS = (
    "Step 1: Janet's ducks lay 16 eggs per day.",
    "Step 2: She eats three for breakfast every morning, so she has 16 - 3 = 13 eggs left.",
    "Step 3: She bakes muffins for her friends every day with four eggs, so she has 13 - 4 = 9 eggs left.",
    "Step 4: She sells the remainder at the farmers' market daily for $2 per fresh duck egg, so she makes 9 * $2 = "
    "${0} every day at the farmers' market. The answer is: {0}",
)
_INEQUALITY = (
    "Let $x,$ $y,$ and $z$ be positive real numbers such that $xyz(x + y + z) = 1.$  Find the minimum value of\n"
    "\\[(x + y)(y + z).\\]"
)
_INEQUALITY_STEPS = (
    "1. The problem asks us to find the minimum value of $(x + y)(y + z)$ given that $x,$ $y,$ and $z$ are positive "
    "real numbers and $xyz(x + y + z) = 1$.",
    "2. By the AM-GM inequality, we have $x + y + z \\geq 3\\sqrt[3]{xyz}$.",
    "3. By the given condition $xyz(x + y + z) = 1$, we can substitute $x + y + z$ with $\\sqrt[3]{xyz}$ in the "
    "inequality from step 2 to get $3\\sqrt[3]{xyz} \\geq 3$.",
    "4. Simplifying the inequality from step 3 gives $\\sqrt[3]{xyz} \\geq 1$.",
    "5. By raising both sides of the inequality from step 4 to the power of 3, we have $xyz \\geq 1$.",
    "6. By the AM-GM inequality, we have $(x + y)(y + z) \\geq 2\\sqrt{(x + y)(y + z)}$.",
    "7. By the given condition $xyz(x + y + z) = 1$, we can substitute $(x + y)(y + z)$ with $\\frac{1}{xyz}$ in the "
    "inequality from step 6 to get $2\\sqrt{(x + y)(y + z)} \\geq 2\\sqrt{\\frac{1}{xyz}}$.",
    "8. Simplifying the inequality from step 7 gives $(x + y)(y + z) \\geq \\frac{2}{\\sqrt{xyz}}$.",
    "9. By the condition $xyz \\geq 1$ from step 5, we have $\\frac{2}{\\sqrt{xyz}} \\geq \\frac{2}{\\sqrt{1}} = 2$.",
    "10. Therefore, the minimum value of $(x + y)(y + z)$ is $\\boxed{2}$.",
)

_QWEN = (
    "Qwen/Qwen2.5-Math-PRM-7B",
    _FLAMINGOS,
    _FLAMINGO_STEPS,
    (0.9995, 0.1813, 0.9746, 0.9995),
    "its model card, as in vLLM's tests",
    {"markers": "every"},
)
_SHEPHERD = ("shepherd", "peiyi9979/math-shepherd-mistral-7b-prm", _DUCKS)
_REASONEVAL = (_INEQUALITY, _INEQUALITY_STEPS)

PUBLISHED = (
    PublishedRewards("qwen", *_QWEN),
    PublishedRewards("qwen-vllm", *_QWEN),
    *(
        PublishedRewards(
            *_SHEPHERD,
            (*_DUCK_STEPS[:3], _DUCK_STEPS[3].format(answer)),
            (0.9955, 0.9958, 0.9983, last),
            "its model card",
        )
        for answer, last in (("18", 0.9957), ("17", 0.0240))
    ),
    PublishedRewards(
        "reasoneval",
        "GAIR/ReasonEval-7B",
        *_REASONEVAL,
        (0.9492, 0.7863, 0.2520, 0.7860, 0.9125, 0.5916, 0.4494, 0.8189, 0.8240, 0.2671),
        "the authors' repository",
    ),
    PublishedRewards(
        "reasoneval",
        "GAIR/ReasonEval-34B",
        *_REASONEVAL,
        (0.9360, 0.6813, 0.0720, 0.2811, 0.4531, 0.1122, 0.1328, 0.2026, 0.2265, 0.1163),
        "the authors' repository",
    ),
)
"""There are no published rewards for skywork and rlhflow."""
