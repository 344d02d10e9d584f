"""The PRM `reasoneval`: its token ids and the positions of its scores are those of the authors' code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from prmcal.registry.prms.reasoneval import ReasonEvalPRM
from tests.registry.conftest import QWEN2
from tests.registry.prms.prm_layouts import (
    MISTRAL,
    REASONEVAL_7B,
    REASONEVAL_34B,
    SIZES,
    WIDTH,
    saved_weights,
    write_checkpoint,
    write_tokenizer,
)

QUESTION = "Start with 37. step a) add 15, step b) subtract 8."
TRAJECTORIES = (("step a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34", "4"), ())
HEAD: dict[str, tuple[int, ...]] = {"score_head.weight": (3, WIDTH)}
PROMPT = "Question:\n{}\nAnswer:\nLet's think step by step.\n"


@pytest.fixture(scope="module")
def folder(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the layout of ReasonEval-7B: its pad token is its begin-of-sequence token."""
    found = tmp_path_factory.mktemp("reasoneval")
    write_checkpoint(found, REASONEVAL_7B, HEAD)
    write_tokenizer(found, pad_token="<s>")
    return found


@pytest.fixture(scope="module")
def folder_34b(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the layout of ReasonEval-34B: its pad and begin-of-sequence tokens differ."""
    found = tmp_path_factory.mktemp("reasoneval-34b")
    write_checkpoint(found, REASONEVAL_34B, HEAD)
    write_tokenizer(found, pad_token="</s>")
    return found


@pytest.fixture(scope="module")
def qwen2_folder(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The head on a Qwen2 trunk, with the nano models' tokenizer."""
    found = tmp_path_factory.mktemp("reasoneval-qwen2")
    shutil.copytree(tokenizer_folder, found, dirs_exist_ok=True)
    config = {**QWEN2, "model_type": "qwen2", "initializer_range": 0.2, "vocab_size": 448}
    write_checkpoint(found, config, {"score_head.weight": (3, 64)})
    return found


@pytest.fixture(params=["7b", "34b", "qwen2"])
def any_folder(request: pytest.FixtureRequest) -> Path:
    """One model of each architecture."""
    name = {"7b": "folder", "34b": "folder_34b", "qwen2": "qwen2_folder"}[request.param]
    found: Path = request.getfixturevalue(name)
    return found


def create(folder: Path, **arguments: Any) -> ReasonEvalPRM:
    built = prms.create("reasoneval", checkpoint=str(folder), **arguments)
    assert isinstance(built, ReasonEvalPRM)
    return built


def test_it_conforms(folder: Path) -> None:
    assert [check.message for check in run_checks(create(folder)) if not check.passed] == []


def classes(folder: Path, ids: Sequence[int]) -> torch.Tensor:
    """The logits of the three classes at every token, computed from the saved trunk and head."""
    trunk = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        hidden = trunk(input_ids=torch.tensor([list(ids)])).last_hidden_state[0]
    logits: torch.Tensor = hidden @ saved_weights(folder)["score_head.weight"].T
    return logits


def reference_rewards(folder: Path, question: str, steps: Sequence[str], begins: bool) -> list[float]:
    """Rewards of a whole trajectory by the authors' rule for 7B (`begins`) or 34B, the bare question's among them.

    The j-th separator (from 0) at position i marks the position i - 1 - j. Then the separators are removed from the
    ids, and for 7B the id 1 is inserted in front. The authors drop the positions of the first token and of the prompt.
    Here the position of the prompt is kept.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    separator = tokenizer.pad_token
    text = PROMPT.format(question) + separator + "".join(step + separator for step in steps)
    ids = np.array(tokenizer(text).input_ids)
    places = np.flatnonzero(ids == tokenizer.pad_token_id)
    marked = places - 1 - np.arange(len(places))
    kept = ids[ids != tokenizer.pad_token_id].tolist()
    if begins:
        kept, marked = [1, *kept], marked[1:]
    assert len(marked) == len(steps) + 1
    probabilities = classes(folder, kept)[marked].softmax(-1)
    return (probabilities[:, 1] + probabilities[:, 2]).tolist()


@pytest.mark.parametrize(("name", "begins"), [("folder", True), ("folder_34b", False), ("qwen2_folder", False)])
def test_rewards_are_those_of_the_authors_rule(name: str, begins: bool, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    rewards: list[float] = []
    for steps, scores in zip(TRAJECTORIES, create(folder).score(QUESTION, TRAJECTORIES), strict=True):
        np.testing.assert_allclose(scores.reward, reference_rewards(folder, QUESTION, steps, begins), atol=1e-5)
        rewards.extend(scores.reward)
    assert np.ptp(rewards) > 0.01


@pytest.mark.parametrize("read_at", ["reference", "end"])
def test_one_pass_equals_separate_passes(read_at: str, any_folder: Path) -> None:
    """The prompt and the steps are tokenized separately and joined without separators."""
    tokenizer = AutoTokenizer.from_pretrained(any_folder)
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    early = read_at == "reference" and tokenizer.pad_token == tokenizer.bos_token
    plugin = create(any_folder, read_at=read_at)
    for steps, scores in zip(TRAJECTORIES, plugin.score(QUESTION, TRAJECTORIES), strict=True):
        for count in range(len(steps) + 1):
            parts = (PROMPT.format(QUESTION), *steps[:count])
            ids = [
                *begin,
                *(i for part in parts for i in tokenizer(part, add_special_tokens=False).input_ids),
            ]
            negative, neutral, positive = classes(any_folder, ids)[-2 if early else -1].double().tolist()
            expected = np.logaddexp(neutral, positive) - negative
            assert abs(scores.logit[count] - expected) < 1e-5
            assert abs(scores.reward[count] - 1 / (1 + np.exp(-expected))) < 1e-5


@pytest.mark.parametrize("fields", [{"use_bias": True}, {"bias": True, "score_dim": 3}])
def test_a_head_with_a_bias_is_read_if_the_configuration_says_so(
    fields: dict[str, Any], one_thread: None, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, {**MISTRAL, **fields}, {**HEAD, "score_head.bias": (3,)})
    write_tokenizer(tmp_path, pad_token="<s>")
    _, head = create(tmp_path).modules
    assert torch.equal(head.state_dict()["bias"], saved_weights(tmp_path)["score_head.bias"])


@pytest.mark.parametrize(
    ("config", "head", "message"),
    [
        ({"score_dimension": 2}, 2, "the weight score_head.weight has the shape .* instead of"),
        (
            {"use_bias": True},
            3,
            r"than MistralReasonEval.* 1 differences: the weight score_head\.bias is missing",
        ),
        (
            {"model_type": "gpt2"},
            3,
            "has the model type 'gpt2'. The PRM 'reasoneval' supports llama, mistral, qwen2",
        ),
    ],
)
def test_other_heads_and_trunks_are_refused(
    config: dict[str, Any], head: int, message: str, one_thread: None, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, REASONEVAL_7B, {"score_head.weight": (head, WIDTH)})
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, **REASONEVAL_7B, **config}))
    write_tokenizer(tmp_path, pad_token="<s>")
    with pytest.raises(PluginFailedError, match=message):
        create(tmp_path).score(QUESTION, TRAJECTORIES)


def test_a_tokenizer_without_a_pad_token_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    write_tokenizer(tmp_path, pad_token=None)
    with pytest.raises(PluginFailedError, match="ReasonEval's format needs it to separate steps"):
        create(tmp_path).score(QUESTION, TRAJECTORIES)


def test_all_that_decides_the_scores_is_in_the_identity(folder: Path) -> None:
    plugins = [create(folder), create(folder, read_at="end"), create(folder, max_tokens=99)]
    identities = [json.dumps(plugin.identity()) for plugin in plugins]
    assert len(set(identities)) == len(plugins)
    assert json.dumps(create(folder, batch_tokens=7, tree_tokens=7, device="cpu").identity()) == identities[0]
