"""The PRM `pooling-http` with vLLM's own server: the scores that the same model gives on transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prmcal import PRM, Prefix, Sampling, ScoringRequest
from prmcal.errors import PluginFailedError
from prmcal.harness.audit.training import HeadlessPRM
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.conformance import prm as prm_checks
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.steps import split_steps
from tests.vllm.server import free_port, serving

MARKER = 365
"""The token id of <extra_0> in the nano PRM. vLLM assumes that of Qwen2.5-Math-PRM."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The shipped PRM on a server, which pools every marker, as vLLM does for Qwen2.5-Math-PRM."""
    pooler = f'{{"tok_pooling_type": "STEP", "step_tag_id": {MARKER}}}'
    settings = ("--runner", "pooling", "--max-model-len", "1024", "--pooler-config", pooler)
    port, log = free_port(), tmp_path_factory.mktemp("prm") / "log"
    with serving("nano:prm", "nano-prm", port, log, *settings):
        yield f"http://127.0.0.1:{port}"


def prm(address: str, **arguments: Any) -> PRM:
    given = {"model": "nano-prm", "tokenizer": "nano:prm", "max_tokens": 1024, "patience": 5.0, **arguments}
    return prms.create("pooling-http", base_url=address, **given)


@pytest.fixture(scope="module")
def requests() -> list[ScoringRequest]:
    """Solutions of a shipped policy."""
    questions = datasets.create("nano-math").questions("test", 12)
    weak = llms.create("transformers", checkpoint="nano:weak", dtype="float32", device="cpu")
    drawn = weak.generate([Prefix(each.text) for each in questions], 4, Sampling(temperature=1.0, max_tokens=256), 3)
    return [
        ScoringRequest(question.text, tuple(split_steps(each.text) for each in of_question))
        for question, of_question in zip(questions, drawn, strict=True)
    ]


def test_a_causal_model_is_served_by_the_logits_of_its_answers(
    tmp_path: Path, port: int, requests: list[ScoringRequest]
) -> None:
    """As Math-Shepherd: vLLM makes a classifier of the rows of the two answers in the language-model head.

    It pools every token.
    """
    overrides = (
        '{"architectures": ["Qwen2ForSequenceClassification"], "num_labels": 2, '
        '"classifier_from_token": ["+", "-"], "method": "no_post_processing"}'
    )
    pooler = '{"task": "token_classify", "tok_pooling_type": "ALL"}'
    settings = ("--hf-overrides", overrides, "--pooler-config", pooler)
    format = {"plugin": "shepherd", "arguments": {"marker": "="}}
    local = prms.create("shepherd", checkpoint="nano:strong", dtype="float32", device="cpu", marker="=")
    with serving("nano:strong", "nano-prm", port, tmp_path / "log", "--runner", "pooling", *settings):
        served = prm(f"http://127.0.0.1:{port}", tokenizer="nano:strong", format=format)
        found, expected = (
            np.concatenate([scores.logit for part in each.score_batch(requests[:3]) for scores in part])
            for each in (served, local)
        )
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_value_head_is_served_as_its_card_says(tmp_path: Path, port: int, requests: list[ScoringRequest]) -> None:
    """vLLM takes the weight and the bias of a token classifier for those of a sequence classifier."""
    weight = np.random.default_rng(2).normal(size=128)
    architecture = HeadlessPRM("nano:shepherd", device="cpu").write(weight, 0.5, tmp_path / "trained")
    pooler = '{"task": "token_classify", "tok_pooling_type": "ALL"}'
    settings = ("--hf-overrides", f'{{"architectures": ["{architecture}"]}}', "--pooler-config", pooler)
    folder = str(tmp_path / "trained")
    local = prms.create("token-classifier", checkpoint=folder, dtype="float32", device="cpu", max_tokens=1024)
    with serving(folder, "nano-prm", port, tmp_path / "log", "--runner", "pooling", *settings):
        served = prm(f"http://127.0.0.1:{port}", tokenizer=folder, format="token-classifier")
        found, expected = (
            np.concatenate([scores.logit for part in each.score_batch(requests[:3]) for scores in part])
            for each in (served, local)
        )
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("markers", ["every", "last"])
def test_scores_are_those_of_transformers(markers: str, address: str, requests: list[ScoringRequest]) -> None:
    local = prms.create("qwen", checkpoint="nano:prm", dtype="float32", device="cpu", markers=markers)
    expected, found = (
        np.concatenate([scores.logit for part in each.score_batch(requests) for scores in part])
        for each in (local, prm(address, markers=markers))
    )
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("check", plugin_checks.CHECKS + prm_checks.CHECKS)
def test_the_served_prm_conforms(check: Any, address: str) -> None:
    built = prm(address)
    assert check in checks_of(built)
    check(built)


@pytest.mark.parametrize(
    ("arguments", "steps", "message"),
    [
        ({"model": "other"}, (), "404.*The model `other` does not exist.*Check 'model'"),
        ({"max_tokens": 4096}, ("9" * 1100,), r"400.*maximum context length is 1024.*'max_tokens' fits"),
    ],
)
def test_the_server_says_what_it_refuses(
    arguments: dict[str, Any], steps: tuple[str, ...], message: str, address: str
) -> None:
    with pytest.raises(PluginFailedError, match=message):
        prm(address, **arguments).score("1+1?", [steps])
