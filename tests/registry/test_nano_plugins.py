"""The shipped nano models keep the contracts of their plugins."""

from __future__ import annotations

from typing import Any

import pytest

from registry.conformance import run_checks
from registry.plugins import llms, prms


@pytest.mark.parametrize("name", ["weak", "middle", "strong"])
def test_a_nano_policy_conforms(name: str, one_thread: None) -> None:
    assert failures(llms.create("transformers", checkpoint=f"nano:{name}")) == []


@pytest.mark.parametrize("markers", ["last", "every"])
def test_the_nano_reward_model_conforms(markers: str, one_thread: None) -> None:
    assert failures(prms.create("qwen", checkpoint="nano:prm", markers=markers, dtype="float32")) == []


def failures(plugin: Any) -> list[Any]:
    return [result for result in run_checks(plugin) if not result.passed]
