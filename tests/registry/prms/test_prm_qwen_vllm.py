"""The PRM `qwen-vllm` without vLLM, and the sequences that it sends to an engine."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.errors import PluginFailedError
from prmcal.registry.plugins import prms
from prmcal.registry.prms.token_tree import whole_sequences

ids = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


@given(st.lists(ids, min_size=1, max_size=12))
def test_every_sequence_is_read_in_one_that_begins_with_it_and_no_two_share_a_beginning(
    read: list[tuple[int, ...]],
) -> None:
    whole = whole_sequences(read)
    assert set(whole) == set(read)
    asked = set(whole.values())
    assert asked <= set(read)
    assert all(long[: len(short)] == short for short, long in whole.items())
    assert not any(a != b and b[: len(a)] == a for a in asked for b in asked)


def test_without_vllm_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setitem(sys.modules, "vllm.config", None)
    with pytest.raises(PluginFailedError, match=r"vLLM is not installed.*pip install 'vllm>=0\.32"):
        prms.create("qwen-vllm", checkpoint="nano:prm").score("1+1?", [("2",)])


def test_the_number_of_gpus_is_not_in_the_identity() -> None:
    known = [
        json.dumps(prms.create("qwen-vllm", checkpoint="nano:prm", **arguments).identity())
        for arguments in (
            {},
            {"tensor_parallel": 8, "gpu_memory": 0.4},
            {"markers": "every"},
            {"max_tokens": 9},
        )
    ]
    assert known[0] == known[1]
    assert len(set(known)) == 3
