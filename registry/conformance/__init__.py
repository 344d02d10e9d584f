"""Conformance checks: authors test with them that a plugin keeps its contract. The contracts are in `contracts`.

    from prmcal.registry.conformance import parametrize_with_checks

    @parametrize_with_checks([MyCalibrator()])
    def test_my_calibrator(plugin, check):
        check(plugin)

``prmcal check NAME`` runs the same checks from the command line. Nothing here imports torch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from unittest import SkipTest

from prmcal.errors import PrmcalError
from prmcal.registry.conformance import calibrator, dataset, llm, metric, plugin, prm, strategy
from prmcal.registry.conformance.plugin import Check, explained
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.grader import Grader
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.strategy import PoolStrategy, SearchStrategy
from prmcal.registry.network import patiently

if TYPE_CHECKING:
    import pytest

# Of each kind: the checks of what the class declares, and those of what it does.
_CHECKS: dict[type[Plugin], tuple[tuple[Check, ...], tuple[Check, ...]]] = {
    Calibrator: (calibrator.DECLARATIONS, calibrator.CHECKS),
    Dataset: (dataset.DECLARATIONS, dataset.CHECKS),
    LLM: ((), llm.CHECKS),
    PRM: ((), prm.CHECKS),
    PoolStrategy: (strategy.DECLARATIONS, strategy.CHECKS),
    SearchStrategy: ((strategy.check_reads_are_known,), strategy.SEARCH_CHECKS),
    Metric: (metric.DECLARATIONS, metric.CHECKS),
    Grader: ((), ()),
}
NOT_RUN = "They are run when what the class declares is right."
"""The message of a check that was skipped because a declaration is wrong."""


_PATIENCE = 10.0
"""Seconds for which a check is repeated while the network of its plugin fails. Runs have more patience."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    """The check's name in words."""
    passed: bool
    """True if the check passed. False if it was skipped."""
    message: str = ""
    """The expected and the found. Empty if the check passed."""
    skipped: bool = False
    """True if the check does not apply to this plugin. `message` then has the reason."""


def checks_of(plugin_: Plugin) -> tuple[Check, ...]:
    """Return the checks for a plugin. Each takes the plugin and raises an error if it fails, or SkipTest.

    Raises a TypeError if the object is not a plugin.
    """
    declarations, further_checks = _checks_of(plugin_)
    return declarations + further_checks


def _checks_of(plugin_: Plugin) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """Return the checks of the declarations of the class of a plugin, and all others."""
    for contract, (declarations, checks) in _CHECKS.items():
        if isinstance(plugin_, contract):
            return plugin.DECLARATIONS + declarations, plugin.CHECKS + checks
    raise TypeError(
        "Only an LLM, a PRM, a calibrator, a data set, a strategy, a metric or a grader can be checked. Got "
        f"{plugin_!r} instead. If this is a class, build the plugin first."
    )


def run_checks(plugin_: Plugin) -> list[CheckResult]:
    """Run every check for a plugin that is not fitted, even after a failure. The results have a fixed order.

    The plugin is not changed. If a declaration of the class is wrong, the other checks are skipped, since they would
    fail for misleading reasons.
    """
    declarations, further_checks = _checks_of(plugin_)
    results = [_run(check, plugin_) for check in declarations]
    if all(check_result.passed for check_result in results):
        return results + [_run(check, plugin_) for check in further_checks]
    skipped = (CheckResult(_name(check), passed=False, message=NOT_RUN, skipped=True) for check in further_checks)
    return [*results, *skipped]


def check_build(build: Callable[[], Plugin], cls: type[Plugin]) -> Plugin | CheckResult:
    """Build a plugin. Return a failed result if its constructor raises an error that the arguments did not cause.

    Raises a PrmcalError if the arguments are wrong.
    """
    try:
        return build()
    except PrmcalError:
        raise
    except Exception as error:
        promise = "__init__ only stores its arguments, so that a plugin can be built without files and models."
        message = f"{promise} {explained(cls, error)} Move this work into the method that needs it."
        return CheckResult("it can be built", passed=False, message=message)


def compare_with_published(plugin_: Plugin, checkpoint: str) -> list[CheckResult]:
    """Compare a PRM with the published rewards of a checkpoint, if there are any.

    The plugin has the weights of that checkpoint, given by its hub id. A PRM is closed afterwards. There is a result
    for each published example, and none for other plugins and checkpoints.
    """
    place = (plugin_.plugin_name, checkpoint.partition("@")[0])
    return [
        _run(partial(prm.compare_with_example, example=example), plugin_, "published rewards")
        for example in prm.published_examples()
        if (example["plugin"], example["checkpoint"]) == place
    ]


def _run(check: Check, plugin_: Plugin, name: str = "") -> CheckResult:
    name = name or _name(check)
    try:
        patiently(plugin_, partial(check, plugin_), _PATIENCE)
    except SkipTest as reason:
        return CheckResult(name, passed=False, message=str(reason), skipped=True)
    except AssertionError as error:
        return CheckResult(name, passed=False, message=str(error) or "An assertion of the plugin failed.")
    except (Exception, SystemExit) as error:
        return CheckResult(name, passed=False, message=explained(type(plugin_), error))
    return CheckResult(name, passed=True)


def parametrize_with_checks(plugins: Iterable[Plugin]) -> "pytest.MarkDecorator":
    """Return a pytest decorator that runs every check on every plugin, each as a separate test.

    The decorated test has the parameters ``plugin`` and ``check``, and calls ``check(plugin)``.
    """
    import pytest

    pairs = [
        pytest.param(plugin_, check, id=f"{plugin_.plugin_name or type(plugin_).__name__}: {_name(check)}")
        for plugin_ in plugins
        for check in checks_of(plugin_)
    ]
    return pytest.mark.parametrize(("plugin", "check"), pairs)


def _name(check: Check) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")
