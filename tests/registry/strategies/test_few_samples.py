"""Rules with a smallest number of samples, where the budget is below it."""

from __future__ import annotations

import numpy as np
import pytest

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies


@pytest.mark.parametrize("name", ["ESC", "BEACON"])
@pytest.mark.parametrize("samples", [1, 2])
def test_a_rule_draws_the_whole_budget_if_it_is_too_small_to_stop_earlier(name: str, samples: int) -> None:
    random = np.random.default_rng(0)
    correct = random.random((6, 4)) < 0.5
    pool = Pool(correct, correct.astype(np.int64), scores=random.normal(size=(6, 4)))
    rule = strategies.create(name)
    assert isinstance(rule, PoolStrategy)
    answered = rule.answer(pool, Setting(samples))
    np.testing.assert_allclose(answered.samples, samples)
    assert np.all((answered.accuracy >= 0) & (answered.accuracy <= 1))
