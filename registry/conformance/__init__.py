"""Checks of whether a plugin keeps its contract: they ship with the contracts, for the authors of plugins.

    from prmcal.registry.conformance import parametrize_with_checks

    @parametrize_with_checks([MyCalibrator()])
    def test_my_calibrator(plugin, check):
        check(plugin)

``prmcal check NAME`` runs the same from the command line. Nothing here imports torch.
"""

from __future__ import annotations

from prmcal.registry.conformance.runner import (
    CheckResult,
    checks_of,
    compare_with_published,
    parametrize_with_checks,
    run_checks,
)

__all__ = ["CheckResult", "checks_of", "compare_with_published", "parametrize_with_checks", "run_checks"]
