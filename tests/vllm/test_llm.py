"""The LLM `vllm` keeps the contract, and draws from the same distribution as the LLM `transformers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prmcal import GenerationRequest, Prefix, Sampling
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import llm as llm_checks
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.contracts.models import LLM
from prmcal.registry.plugins import datasets, llms

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
PREFIXES = (Prefix(QUESTION), Prefix(QUESTION, ("a) 37+15=52",)))
WEAK = {"checkpoint": "nano:weak", "dtype": "float32"}


@pytest.fixture(scope="module")
def weak() -> Iterator[Any]:
    """The weakest of the shipped policies in one engine."""
    built = llms.create("vllm", **WEAK, context=512)
    yield built
    built.close()


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """The same one on transformers."""
    built = llms.create("transformers", **WEAK, device="cpu")
    yield built
    built.close()


@pytest.mark.parametrize("check", plugin_checks.CHECKS + llm_checks.CHECKS)
def test_it_conforms(check: Any, weak: LLM) -> None:
    assert check in checks_of(weak)
    check(weak)


def test_the_first_samples_of_many_are_those_of_few(weak: LLM) -> None:
    few = weak.generate(PREFIXES, 2, Sampling(max_tokens=60), seed=3)
    many = weak.generate(PREFIXES, 6, Sampling(max_tokens=60), seed=3)
    assert [of_prefix[:2] for of_prefix in many] == few


def test_a_batch_of_requests_gives_what_each_gives_alone(weak: LLM) -> None:
    requests = [GenerationRequest(prefix, 3, seed) for seed, prefix in enumerate(PREFIXES)]
    sampling = Sampling(temperature=1.0, max_tokens=60)
    alone = [weak.generate([each.prefix], each.n, sampling, each.seed)[0] for each in requests]
    assert weak.generate_batch(requests, sampling) == alone


def test_near_zero_temperature_says_what_transformers_says(weak: LLM, local: LLM) -> None:
    cold = Sampling(temperature=1e-4, max_tokens=64)
    for served, here in zip(weak.generate(PREFIXES, 1, cold, 1), local.generate(PREFIXES, 1, cold, 1), strict=True):
        assert served == here


def test_text_and_reason_at_a_stop_string(weak: LLM) -> None:
    free = weak.generate(PREFIXES, 8, Sampling(max_tokens=40), seed=2)
    stopped = weak.generate(PREFIXES, 8, Sampling(max_tokens=40, stop=("=", "4")), seed=2)
    met = 0
    for whole, cut in zip((c for part in free for c in part), (c for part in stopped for c in part), strict=True):
        found = [whole.text.find(stop) for stop in ("=", "4") if stop in whole.text]
        assert cut.text == (whole.text[: min(found)] if found else whole.text)
        met += bool(found)
        assert cut.finish_reason == ("stop" if found else whole.finish_reason)
        assert whole.finish_reason == ("length" if whole.tokens == 40 else "end")
    assert met > 5


def test_a_prefix_that_fills_the_context_is_an_error(weak: LLM) -> None:
    with pytest.raises(
        PluginFailedError, match=r"leaves no room for a completion: the context of nano:weak is 512 tokens"
    ):
        weak.generate([Prefix("7" * 600)], 1, Sampling(max_tokens=5), 1)


def test_the_grids_rollouts_agree_with_transformers_in_pass_at_1(
    weak: LLM, local: LLM, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of nano-math, as grids/nano.yaml samples it; an interval over questions holds 0 difference."""
    dataset = datasets.create("nano-math")
    questions = dataset.questions("test", 16)
    sampling = Sampling(temperature=1.0, max_tokens=256)
    rates = []
    for llm in (weak, local):
        drawn = llm.generate([Prefix(question.text) for question in questions], 8, sampling, 11)
        rates.append(
            [
                np.mean([dataset.grade(question, each.text)[0] == "correct" for each in part])
                for question, part in zip(questions, drawn, strict=True)
            ]
        )
    served, here = np.array(rates)
    difference = served - here
    half_width = 1.96 * difference.std(ddof=1) / np.sqrt(len(questions))
    with capsys.disabled():
        print(
            f"\npass@1 by vLLM {served.mean():.3f}, by transformers {here.mean():.3f}, difference "
            f"{difference.mean():+.3f} +- {half_width:.3f} (16 questions x 8)"
        )
    assert 0.1 < here.mean() < 0.95
    assert abs(difference.mean()) < half_width * 3.5 / 1.96  # a false alarm in 2,000 runs with other seeds
