"""The PRM `qwen` and its base class: one pass over all prefixes equals separate passes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from prmcal import ScoringRequest, TransformersPRM
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.models.architectures import QwenRewardModel
from prmcal.registry.plugins import prms
from prmcal.registry.prms.qwen import QwenPRM
from tests.registry.create import create_as

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34"), ())
CHAT = (
    "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{{}}.<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{prefix}<extra_0>"
)


@pytest.fixture(scope="module")
def reward_model(reward_folder: Path) -> QwenPRM:
    """The tiny reward model as the registry builds it."""
    built = prms.create("qwen", checkpoint=str(reward_folder))
    assert isinstance(built, QwenPRM)
    return built


@pytest.mark.parametrize("markers", ["last", "every"])
def test_it_conforms(markers: str, reward_folder: Path) -> None:
    plugin = prms.create("qwen", checkpoint=str(reward_folder), markers=markers)
    assert [check.message for check in run_checks(plugin) if not check.passed] == []


def test_its_system_prompt_is_an_argument_and_is_in_its_identity(reward_model: QwenPRM, reward_folder: Path) -> None:
    changed = prms.create("qwen", checkpoint=str(reward_folder), system_prompt="Be brief.")
    assert isinstance(changed, QwenPRM)
    assert changed.prefix_text("1+1?", ["2"]).startswith("<|im_start|>system\nBe brief.<|im_end|>")
    assert changed.identity()["arguments"]["system_prompt"] == "Be brief."
    assert changed.identity() != reward_model.identity()


def alone(folder: Path, text: str) -> NDArray[np.float32]:
    """The logits of bad and good at the end of a text, from a separate pass."""
    from transformers import AutoTokenizer

    model = QwenRewardModel.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids
    with torch.no_grad():
        logits: NDArray[np.float32] = model(input_ids=ids)[0, -1].numpy()
    return logits


@pytest.mark.parametrize(("markers", "joint"), [("last", "\n\n"), ("every", "<extra_0>")])
def test_one_pass_equals_separate_passes(markers: str, joint: str, reward_folder: Path) -> None:
    plugin = prms.create("qwen", checkpoint=str(reward_folder), markers=markers)
    rewards = []
    for steps, scores in zip(TRAJECTORIES, plugin.score(QUESTION, TRAJECTORIES), strict=True):
        for count in range(len(steps) + 1):
            bad, good = alone(reward_folder, CHAT.format(question=QUESTION, prefix=joint.join(steps[:count])))
            assert abs(scores.logit[count] - (good - bad)) < 2e-5
            assert abs(scores.reward[count] - np.exp(good) / (np.exp(good) + np.exp(bad))) < 1e-5
            rewards.append(scores.reward[count])
    assert np.ptp(rewards) > 0.01


def test_hidden_states_of_whole_trajectories_alone(reward_model: QwenPRM) -> None:
    every, whole = (
        reward_model.hidden_states([ScoringRequest(QUESTION, TRAJECTORIES, whole_only=only)])[0]
        for only in (False, True)
    )
    ends = np.cumsum([len(steps) + 1 for steps in TRAJECTORIES]) - 1
    np.testing.assert_allclose(whole.logit, every.logit[ends], atol=1e-5)
    np.testing.assert_allclose(whole.states[whole.leaves], every.states[every.leaves[ends]], atol=1e-5)
    assert len(whole.states) < len(every.states)


def test_the_head_stays_in_float32_over_a_bfloat16_trunk(reward_folder: Path) -> None:
    plugin = create_as(QwenPRM, prms, "qwen", checkpoint=str(reward_folder), dtype="bfloat16")
    trunk, head = plugin.load_model()
    assert {weights.dtype for weights in trunk.parameters()} == {torch.bfloat16}
    assert {weights.dtype for weights in head.parameters()} == {torch.float32}
    exact = prms.create("qwen", checkpoint=str(reward_folder)).score(QUESTION, TRAJECTORIES)[0].logit
    assert np.abs(plugin.score(QUESTION, TRAJECTORIES)[0].logit - exact).max() < 1.0


def test_trees_of_any_size_give_the_same_scores(reward_folder: Path) -> None:
    requests = [ScoringRequest(f"{QUESTION} {number}", TRAJECTORIES * 2) for number in range(5)]
    small = prms.create("qwen", checkpoint=str(reward_folder), tree_tokens=1, batch_tokens=1).score_batch(requests)
    large = prms.create("qwen", checkpoint=str(reward_folder), tree_tokens=4000).score_batch(requests)
    for ours, theirs in zip(small, large, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.logit, other.logit, atol=1e-5)
            assert one.tokens == other.tokens


def test_over_long_prefixes_are_flagged_and_all_may_be(reward_folder: Path) -> None:
    plugin = prms.create("qwen", checkpoint=str(reward_folder), max_tokens=75)
    fits, cut, none = plugin.score_batch(
        [
            ScoringRequest("1+1?", (("2",),)),
            ScoringRequest("1+1?", (("2", "3" * 60, "4"),)),
            ScoringRequest("7" * 80, (("1",),)),
        ]
    )
    assert fits[0].over_long.tolist() == [False, False]
    assert cut[0].over_long.tolist() == [False, False, True, True]
    np.testing.assert_allclose(cut[0].reward[:2], fits[0].reward, atol=1e-5)
    assert np.isnan(cut[0].reward[2:]).all()
    assert none[0].over_long.all()
    assert none[0].tokens == 0


class TokenClassifierPRM(TransformersPRM):
    """A plugin with what an author must write."""

    marker, max_tokens = "<extra_0>", 256

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        return f"Problem: {question}\n" + "\n\n".join(steps)

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        return head[..., 1] - head[..., 0]


@pytest.fixture(scope="module")
def classifier_folder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token classifier of transformers with another architecture than Qwen2."""
    from transformers import LlamaConfig, LlamaForTokenClassification

    folder = tmp_path_factory.mktemp("classifier")
    shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
    config = LlamaConfig(
        vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        LlamaForTokenClassification(config).save_pretrained(folder)
    return folder


def test_a_prm_of_a_few_lines_conforms(classifier_folder: Path) -> None:
    plugin = TokenClassifierPRM(checkpoint=str(classifier_folder))
    plugin.check_arguments()
    assert [check.message for check in run_checks(plugin) if not check.passed] == []


def test_log_odds_of_the_wrong_shape_are_refused(classifier_folder: Path) -> None:
    class Forgetful(TokenClassifierPRM):
        def log_odds(self, head: torch.Tensor) -> torch.Tensor:
            return head

    with pytest.raises(PluginFailedError, match="'log_odds' of the PRM"):
        Forgetful(checkpoint=str(classifier_folder)).score(QUESTION, TRAJECTORIES)


def test_what_a_class_says_of_the_input_is_part_of_its_identity(classifier_folder: Path) -> None:
    class Other(TokenClassifierPRM):
        marker = "ки"

    first, second = (cls(checkpoint=str(classifier_folder)).identity() for cls in (TokenClassifierPRM, Other))
    assert (first["marker"], second["marker"]) == ("<extra_0>", "ки")
    json.dumps(first)


def test_a_class_says_what_it_reads_with_or_without_annotations() -> None:
    class Short(TokenClassifierPRM):
        max_tokens: int = 64

    assert Short(checkpoint="nano:prm").max_tokens == 64
    assert Short(checkpoint="nano:prm", max_tokens=32).max_tokens == 32
