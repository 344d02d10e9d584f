"""All built-in metrics keep their contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prmcal.registry.conformance import parametrize_with_checks
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.plugins import metrics

BUILT_IN = [name for name, target in metrics.names().items() if target.startswith("prmcal.")]


@parametrize_with_checks([metrics.create(name) for name in BUILT_IN])
def test_built_in_metrics_keep_the_contract(plugin: Metric, check: Callable[[Metric], None]) -> None:
    check(plugin)


@pytest.mark.parametrize("name", BUILT_IN)
def test_their_words_can_be_shown(name: str) -> None:
    metric = metrics.create(name)
    assert metric.title and metric.titled(name) == metric.title
    assert metric.titled("mine", 0.1) == f"{metric.title} (mine), beta 0.1"
    assert metric.described().endswith(".") and "\n" not in metric.described()
