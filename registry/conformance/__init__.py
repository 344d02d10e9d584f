"""Conformance checks, with which authors can test that a plugin keeps its contract. The contracts are in `contracts`.

    from prmcal.registry.conformance import parametrize_with_checks

    @parametrize_with_checks([MyCalibrator()])
    def test_my_calibrator(plugin, check):
        check(plugin)

``prmcal check NAME`` runs the same checks from the command line. Nothing here imports torch.
"""

from prmcal.registry.conformance.runner import (
    NOT_RUN,
    CheckResult,
    check_build,
    checks_of,
    compare_with_published,
    parametrize_with_checks,
    run_checks,
)

__all__ = [
    "NOT_RUN",
    "CheckResult",
    "check_build",
    "checks_of",
    "compare_with_published",
    "parametrize_with_checks",
    "run_checks",
]
