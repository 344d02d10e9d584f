"""The PRM `qwen-vllm` keeps the contract, and gives the scores that `qwen` gives on transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prmcal import Prefix, Sampling, ScoringRequest
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.conformance import prm as prm_checks
from prmcal.registry.contracts.models import PRM
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.steps import split_steps

NANO = {"checkpoint": "nano:prm", "dtype": "float32"}


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    """The shipped PRM in an engine."""
    built = prms.create("qwen-vllm", **NANO, max_tokens=1024)
    yield built
    built.close()


@pytest.fixture(scope="module")
def requests() -> list[ScoringRequest]:
    """Solutions of a shipped policy."""
    questions = datasets.create("nano-math").questions("test", 12)
    llm = llms.create("transformers", checkpoint="nano:weak", dtype="float32", device="cpu")
    drawn = llm.generate([Prefix(each.text) for each in questions], 4, Sampling(temperature=1.0, max_tokens=256), 3)
    return [
        ScoringRequest(question.text, tuple(split_steps(each.text) for each in of_question))
        for question, of_question in zip(questions, drawn, strict=True)
    ]


@pytest.mark.parametrize("markers", ["last", "every"])
def test_its_scores_are_those_of_transformers(
    markers: str, served: Any, requests: list[ScoringRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    local = prms.create("qwen", **NANO, device="cpu", markers=markers)
    monkeypatch.setattr(served, "markers", markers)  # One engine serves both.
    expected, found = (
        np.concatenate([scores.logit for part in prm.score_batch(requests) for scores in part])
        for prm in (local, served)
    )
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("check", plugin_checks.CHECKS + prm_checks.CHECKS)
def test_it_conforms(check: Any, served: PRM) -> None:
    assert check in checks_of(served)
    check(served)


def test_engine_and_transformers_are_never_loaded_at_a_time(served: Any) -> None:
    """As hidden states, then scores are asked for: on GPUs there is room for one of the two."""
    asked = [ScoringRequest("1+1?", (("a) 1+1=2", "The answer is 2."),))]
    ((before,),) = served.score_batch(asked)
    (states,) = served.hidden_states(asked)
    assert "_engine" not in vars(served)
    np.testing.assert_allclose(states.logit, before.logit, atol=1e-4)
    ((after,),) = served.score_batch(asked)
    assert "modules" not in vars(served)
    np.testing.assert_array_equal(after.logit, before.logit)


def test_prefixes_beyond_the_context_are_flagged_or_refused(served: Any) -> None:
    steps = ("a) 1+1=2", "9" * 1100)
    flagged = served.score("1+1?", [steps])[0]
    assert flagged.over_long.tolist() == [False, False, True]
    served.max_tokens = 4096
    try:
        with pytest.raises(PluginFailedError, match=r"nano:prm is 1024 tokens\. Set 'max_tokens' to 1024 or less"):
            served.score("1+1?", [steps])
    finally:
        served.max_tokens = 1024
