"""The PRMs whose entry the page "What is supported" gives: their scores are those of the authors' code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from prmcal import ScoringRequest, TransformersPRM
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from tests.registry.conftest import QWEN2
from tests.registry.prms.prm_assertions import (
    assert_exact_head,
    assert_long_prefixes_flagged,
    assert_trunk_as_saved,
)
from tests.registry.prms.prm_layouts import (
    LLAMA_31,
    LLAMA_31_TEMPLATE,
    LLAMA_31_TOKENS,
    saved_weights,
    write_checkpoint,
)

QUESTION = "Start with 37. a) add 15?\n b) subtract 8?"
TRAJECTORIES = (
    ("a) 37+15=52.", "b) 52-8=\\boxed{44}"),
    ("a) 37+15=42", "b) 42-8=34\nSo: 34."),
    ("4", "", "5"),
    (),
)
VALUE_HEAD = {"v_head.summary.weight": (1, QWEN2["hidden_size"]), "v_head.summary.bias": (1,)}
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "supported.md"


def entry(start: str) -> tuple[str, dict[str, Any]]:
    """The plugin and the arguments in the row of the page whose first cell begins like this."""
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {start}"))
    written = yaml.safe_load(row.split("|")[2].strip(" `"))
    return written["plugin"], written["arguments"]


def create(start: str, **arguments: Any) -> TransformersPRM:
    plugin, written = entry(start)
    built = prms.create(plugin, **{**written, **arguments})
    assert isinstance(built, TransformersPRM)
    return built


@pytest.fixture(scope="module")
def skywork(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in Skywork's layout, with an unused language-model head. Its tokenizer has a first token."""
    folder = tmp_path_factory.mktemp("skywork")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    tokenizer.save_pretrained(folder)
    config = {
        **QWEN2,
        "architectures": ["Qwen2ForPrmModel"],
        "model_type": "qwen2",
        "initializer_range": 0.2,
        "vocab_size": len(tokenizer),
    }
    unused = {"lm_head.weight": (len(tokenizer), QWEN2["hidden_size"])}
    write_checkpoint(folder, config, {**VALUE_HEAD, **unused})
    return folder


@pytest.fixture(scope="module")
def rlhflow(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the layout of Llama-3.1, with its configuration, special tokens and chat template."""
    folder = tmp_path_factory.mktemp("rlhflow")
    tokenizer: Any = AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.add_special_tokens({"bos_token": LLAMA_31_TOKENS[0], "eos_token": LLAMA_31_TOKENS[-1]})
    tokenizer.add_tokens(list(LLAMA_31_TOKENS), special_tokens=True)
    tokenizer.chat_template = LLAMA_31_TEMPLATE
    tokenizer.save_pretrained(folder)
    write_checkpoint(folder, {**LLAMA_31, "vocab_size": len(tokenizer)})
    return folder


def skywork_logits(folder: Path, question: str, steps: Sequence[str]) -> list[float]:
    """The values of all prefixes by the authors' rule: one text, read behind each step, or behind the question."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(tokenizer.bos_token + question + "\n")
    places = [len(ids) - 1]
    for step in steps:
        for line in step.split("\n"):
            ids = ids + tokenizer.encode(line) + [tokenizer.encode("\n")[-1]]
        places.append(len(ids) - 1)
    saved = saved_weights(folder)
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder).eval()(torch.tensor([ids])).last_hidden_state[0, places]
        values = torch.nn.functional.linear(hidden, *(saved[name] for name in VALUE_HEAD))
    return values[:, 0].tolist()


def rlhflow_logits(folder: Path, question: str, steps: Sequence[str]) -> list[float]:
    """The log-odds of all prefixes by the authors' rule: a growing chat, read three tokens before its end."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    plus, minus = tokenizer.convert_tokens_to_ids(["+", "-"])
    texts = [question, *(f"{question} {step}" if not number else step for number, step in enumerate(steps))]
    logits: list[float] = []
    chat: list[dict[str, str]] = []
    for number, text in enumerate(texts):
        chat = [*(chat if number > 1 else ()), {"role": "user", "content": text}]
        chat.append({"role": "assistant", "content": "+"})
        ids = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)["input_ids"]
        with torch.no_grad():
            found = model(ids).logits[0, -3]
        logits.append((found[plus] - found[minus]).item())
    return logits


Rule = Callable[[Path, str, Sequence[str]], list[float]]


@pytest.mark.parametrize(
    ("row", "fixture", "rule"),
    [("Skywork", "skywork", skywork_logits), ("RLHFlow", "rlhflow", rlhflow_logits)],
)
def test_scores_are_those_of_the_authors_code(
    row: str, fixture: str, rule: Rule, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(fixture)
    plugin = create(row, checkpoint=str(folder))
    found = plugin.score(QUESTION, TRAJECTORIES)
    for steps, scores in zip(TRAJECTORIES, found, strict=True):
        np.testing.assert_allclose(scores.logit, rule(folder, QUESTION, steps), atol=1e-5)
    assert np.ptp(np.concatenate([scores.reward for scores in found])) > 0.01
    assert [check.message for check in run_checks(plugin) if not check.passed] == []
    assert set(assert_trunk_as_saved(folder, plugin)) <= {"lm_head.weight", *VALUE_HEAD}
    limit = {"Skywork": 40, "RLHFlow": 120}[row]
    assert_long_prefixes_flagged(create(row, checkpoint=str(folder), max_tokens=limit))
    assert_exact_head(create(row, checkpoint=str(folder), dtype="bfloat16"), plugin)


def test_the_head_of_another_file_is_read_beside_the_language_model(policy_folder: Path, tmp_path: Path) -> None:
    width, file = QWEN2["hidden_size"], tmp_path / "head.safetensors"
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn((2, width), generator=generator) / 4
    head = {"score.weight": weight, "score.bias": torch.tensor([0.5, -1.0])}
    save_file({**head, "other": torch.zeros(3)}, file)
    plugin = create("a head of", checkpoint=str(policy_folder), head=str(file))
    request = ScoringRequest(QUESTION, TRAJECTORIES)
    (forest,) = plugin.hidden_states([request])
    bad, good = (forest.states[forest.leaves] @ weight.numpy().T + head["score.bias"].numpy()).T
    (scored,) = plugin.score_batch([request])
    np.testing.assert_allclose(np.concatenate([each.logit for each in scored]), good - bad, atol=1e-4)
    assert [check.message for check in run_checks(plugin) if not check.passed] == []

    moved = file.rename(tmp_path / "moved.safetensors")
    same = create("a head of", checkpoint=str(policy_folder), head=str(moved)).identity()
    assert plugin.arguments["head"] == str(file) and str(tmp_path) not in json.dumps(same)
    save_file({**head, "score.bias": torch.zeros(2)}, file)
    other = create("a head of", checkpoint=str(policy_folder), head=str(file)).identity()
    assert other["head"] != same["head"]


@pytest.mark.parametrize("content", [None, b"no weights", {"weight": (2, 4)}])
def test_a_head_that_cannot_be_read_is_named(
    content: bytes | dict[str, tuple[int, int]] | None, policy_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "head.safetensors"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        save_file({name: torch.zeros(shape) for name, shape in content.items()}, file)
    with pytest.raises(InvalidArgumentsError, match=r"head\.safetensors' cannot be read: .*score\.bias, as"):
        create("a head of", checkpoint=str(policy_folder), head=str(file))
    with pytest.raises(InvalidArgumentsError, match=r"'v_head' cannot be read: it lacks 'v_head\.weight'"):
        create("a head of", checkpoint=str(policy_folder), head="v_head")


def test_a_head_of_another_model_is_an_error(policy_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "head.safetensors"
    save_file({"score.weight": torch.zeros(2, 7), "score.bias": torch.zeros(2)}, file)
    plugin = create("a head of", checkpoint=str(policy_folder), head=str(file))
    with pytest.raises(PluginFailedError, match=r"has the shape \[2, 7\], and .* needs \[2, 64\]"):
        plugin.score(QUESTION, TRAJECTORIES)


def test_the_earlier_answers_of_a_chat_are_the_plus_of_the_prm(rlhflow: Path) -> None:
    text = create("RLHFlow", checkpoint=str(rlhflow), plus="a", minus="b").prefix_text(QUESTION, ("1", "2"))
    assert "<|end_header_id|>\n\na<|eot_id|>" in text
    assert "+<|eot_id|>" not in text


def test_every_entry_of_the_page_can_be_built(policy_folder: Path, skywork: Path, trained_head: Path) -> None:
    """With a model of this machine in place of that of the page."""
    rows = PAGE.read_text().partition("| PRM | what")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) == 7
    for row in rows:
        start = row.split("|")[1].strip()
        _, written = entry(start)
        folder = skywork if written.get("head") == "v_head.summary" else policy_folder
        here = {"checkpoint": str(folder)} if "checkpoint" in written else {}
        if written.get("head", "").endswith(".safetensors"):
            here["head"] = str(trained_head)
        create(start, **here)


@pytest.fixture
def trained_head(tmp_path: Path) -> Path:
    file = tmp_path / "head.safetensors"
    save_file({"score.weight": torch.zeros(2, QWEN2["hidden_size"]), "score.bias": torch.zeros(2)}, file)
    return file


def test_a_checkpoint_without_the_head_and_one_without_a_language_model_are_refused(
    skywork: Path, rlhflow: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'v_head.summary' cannot be read: it lacks"):
        create("Skywork", checkpoint=str(rlhflow))
    shutil.copytree(rlhflow, tmp_path, dirs_exist_ok=True)
    write_checkpoint(tmp_path, json.loads((rlhflow / "config.json").read_text()), {"score.weight": (2, 32)})
    with pytest.raises(PluginFailedError, match=r"the weight lm_head\.weight is missing"):
        create("RLHFlow", checkpoint=str(tmp_path)).score(QUESTION, TRAJECTORIES)
