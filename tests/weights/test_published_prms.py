"""PRMs whose weights are on this machine give the published rewards."""

from __future__ import annotations

from typing import Any

import pytest

from prmcal.registry.conformance.prm import compare_with_example, published_examples
from prmcal.registry.plugins import prms
from tests.registry.prms.prm_layouts import on_this_machine

# The engine of `qwen-vllm` has an environment of its own.
HERE = [each for each in published_examples() if on_this_machine(each["checkpoint"]) and each["plugin"] != "qwen-vllm"]


@pytest.mark.parametrize("example", HERE, ids=lambda each: f"{each['plugin']}: {each['checkpoint']}")
def test_rewards_are_the_published_ones(example: dict[str, Any]) -> None:
    compare_with_example(prms.create(example["plugin"], checkpoint=example["checkpoint"]), example)
