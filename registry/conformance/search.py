"""The checks for searches, which concern the width that they choose."""

from __future__ import annotations

import numpy as np

from prmcal.registry.conformance.plugin import expect, failed, further_checks
from prmcal.registry.conformance.strategy import check_reads_are_known
from prmcal.registry.contracts.search import SearchStrategy

_TARGET = 0.9


def _rewards(plugin: SearchStrategy) -> list[np.ndarray]:
    """Rewards of the best prefixes in descending order, also 0, 1 and NaN (too long for the PRM)."""
    random = np.random.default_rng(0)
    drawn = [-np.sort(-random.random(count)) for count in range(1, plugin.width + 1)]
    ends = [np.array([value]) for value in (0.0, 1.0, np.nan)]
    return [*drawn, *ends, np.append(drawn[0], np.nan)[: plugin.width]]


def check_the_width_is_in_its_range(plugin: SearchStrategy) -> None:
    """``keep`` returns a number in [1, K], and ``expand`` returns a number in [1, M]."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name, most in (("expand", plugin.expansions), ("keep", plugin.width)):
            given = rewards.copy()
            try:
                found = getattr(plugin, name)(given, target)
            except TypeError as error:
                if "NoneType" not in str(error) or plugin.targeted:
                    raise
                raise failed("raised typeerror without targeted", name=name, error=error) from error
            expect(np.array_equal(given, rewards, equal_nan=True), "must not change the", name=name)
            expect(
                isinstance(found, int) and 1 <= found <= most,
                "must return an int",
                name=name,
                most=most,
                rewards=rewards,
                found=found,
            )


def check_the_same_rewards_give_the_same_width(plugin: SearchStrategy) -> None:
    """The width does not depend on earlier calls, since a resumed search starts from the beginning."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name in ("expand", "keep"):
            first, second = (getattr(plugin, name)(rewards, target) for _ in range(2))
            expect(first == second, "must return the same", name=name, first=first, second=second)


DECLARATIONS = (check_reads_are_known,)
CHECKS = further_checks(globals(), DECLARATIONS)
