"""Published rewards are compared with those of their weights, and differ from those of other weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal import TransformersPRM
from prmcal.registry.conformance import compare_with_published
from prmcal.registry.conformance import prm as checks
from prmcal.registry.conformance.prm import published_examples
from prmcal.registry.plugins import prms
from tests.conftest import ROOT, Prmcal

PUBLISHED = published_examples()


def test_every_example_is_whole_and_of_a_known_checkpoint() -> None:
    assert {each["plugin"] for each in PUBLISHED} == {"qwen", "qwen-vllm", "shepherd", "reasoneval"}
    for example in PUBLISHED:
        assert len(example["steps"]) == len(example["rewards"])
        assert all("{" not in step or "\\" in step for step in example["steps"])
        assert issubclass(prms.get(example["plugin"]), TransformersPRM)
    defaults = {each["plugin"]: prms.get(each["plugin"]).checkpoint for each in PUBLISHED}
    assert set(defaults.items()) <= {(each["plugin"], each["checkpoint"]) for each in PUBLISHED}


def test_weights_that_give_the_rewards_pass_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    prm = prms.create("qwen", checkpoint="nano:prm", device="cpu", dtype="float32")
    every = prms.create("qwen", checkpoint="nano:prm", device="cpu", dtype="float32", markers="every")
    steps = ("a) 37+15=52", "b) 52-8=44")
    question = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
    rewards = tuple(every.score(question, [steps])[0].reward[1:].tolist())
    example = {
        "plugin": "qwen",
        "checkpoint": "org/PRM",
        "question": question,
        "steps": steps,
        "rewards": rewards,
        "source": "its card",
        "arguments": {"markers": "every"},
    }
    wrong = example | {"rewards": (1 - rewards[0], rewards[1])}
    monkeypatch.setattr(checks, "published_examples", lambda: [example, wrong])
    right, other = compare_with_published(prm, "org/PRM@main")
    assert right.passed
    assert not other.passed
    assert "Check the weights." in other.message
    assert compare_with_published(prm, "org/another") == []


def test_the_command_compares_the_weights_that_it_is_given(prmcal: Prmcal) -> None:
    weights = ROOT / "registry" / "nano" / "models" / "prm"
    done = prmcal("check", "qwen", "--weights", weights, "-a", "dtype=float32", "-a", "device=cpu")
    assert done.returncode == 4
    report = " ".join(done.stdout.split())
    assert "1 FAILED" in report
    assert "FAILED published rewards The rewards of Qwen/Qwen2.5-Math-PRM-7B for the example of" in report


def test_one_cause_of_many_failures_is_told_once(prmcal: Prmcal, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    done = prmcal("check", "qwen", "--weights", tmp_path)
    assert done.returncode == 4
    report = " ".join(done.stdout.split())
    assert report.count("has no tokenizer") == 1
    assert "FAILED one score per prefix, logit is the log odds" in report
