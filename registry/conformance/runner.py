"""Select and run the checks for a plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from prmcal.registry.conformance import calibrator, dataset, llm, plugin, prm, search, strategy
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.contracts.strategy import PoolStrategy

if TYPE_CHECKING:
    import pytest

__all__ = ["CheckResult", "checks_of", "compare_with_published", "parametrize_with_checks", "run_checks"]

_CHECKS: dict[type[Plugin], tuple[Callable[[Any], None], ...]] = {
    Calibrator: calibrator.CHECKS,
    Dataset: dataset.CHECKS,
    LLM: llm.CHECKS,
    PRM: prm.CHECKS,
    PoolStrategy: strategy.CHECKS,
    SearchStrategy: search.CHECKS,
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Attributes
    ----------
    name : str
        The check's name in words.
    passed : bool
        Whether the check passed. False if it was skipped.
    message : str
        What was expected and what was found. Empty if the check passed.
    skipped : bool
        Whether the check does not apply to this plugin. `message` then has the reason.
    """

    name: str
    passed: bool
    message: str = ""
    skipped: bool = False


def checks_of(plugin_: Plugin) -> tuple[Callable[[Any], None], ...]:
    """Return the checks for a plugin. Each takes the plugin and raises AssertionError if it fails, or SkipTest.

    Raises
    ------
    TypeError
        If the object is not a plugin.
    """
    for contract, checks in _CHECKS.items():
        if isinstance(plugin_, contract):
            return plugin.CHECKS + checks
    raise TypeError(
        f"Only an LLM, a PRM, a calibrator, a data set or a strategy can be checked. Got {plugin_!r} instead; "
        "If this is a class, build the plugin first."
    )


def run_checks(plugin_: Plugin) -> list[CheckResult]:
    """Run every check for a plugin, even after a failure.

    Parameters
    ----------
    plugin_ : Plugin
        The plugin, not yet fitted. It is not changed.

    Returns
    -------
    list of CheckResult
        The results in a fixed order.
    """
    return [_run(check, plugin_) for check in checks_of(plugin_)]


def compare_with_published(plugin_: Plugin, checkpoint: str) -> list[CheckResult]:
    """Compare a PRM with the published rewards of a checkpoint, if there are any.

    Parameters
    ----------
    plugin_ : Plugin
        A plugin with the weights of that checkpoint. A PRM is closed afterwards.
    checkpoint : str
        The hub id of the published weights.

    Returns
    -------
    list of CheckResult
        A result for each published example. Empty for other plugins and checkpoints.
    """
    from prmcal.registry.conformance.published import PUBLISHED, check_published_rewards

    place = (plugin_.plugin_name, checkpoint.partition("@")[0])
    return [
        _run(partial(check_published_rewards, example=example), plugin_, "published rewards")
        for example in PUBLISHED
        if (example.plugin, example.checkpoint) == place
    ]


def _run(check: Callable[[Any], None], plugin_: Plugin, name: str = "") -> CheckResult:
    name = name or _name(check)
    try:
        check(plugin_)
    except SkipTest as reason:
        return CheckResult(name, passed=False, message=str(reason), skipped=True)
    except AssertionError as error:
        return CheckResult(name, passed=False, message=str(error) or "An assertion of the plugin failed.")
    except Exception as error:
        return CheckResult(name, passed=False, message=f"It raised {type(error).__name__}: {error}")
    return CheckResult(name, passed=True)


def parametrize_with_checks(plugins: Iterable[Plugin]) -> pytest.MarkDecorator:
    """Return a pytest decorator that runs every check on every plugin, each as a separate test.

    The decorated test has the parameters ``plugin`` and ``check``, and calls ``check(plugin)``.
    """
    import pytest

    pairs = [
        pytest.param(each, check, id=f"{each.plugin_name or type(each).__name__}: {_name(check)}")
        for each in plugins
        for check in checks_of(each)
    ]
    return pytest.mark.parametrize(("plugin", "check"), pairs)


def _name(check: Callable[[Any], None]) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")
