"""The shipped nano models are what their card says: a small slice of the gate, on one CPU core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from registry.nano.problems import generate_split
from registry.nano.training.evaluate import best_of_n, reward_logits, within_auc
from registry.nano.training.examples import Encoder
from registry.nano.training.folders import MODELS, load_policy, load_reward_model
from registry.nano.training.sampling import graded, policy_prompt, sample, split_steps

POLICIES = ("weak", "middle", "strong")
SAMPLES = 16
BANDS = {"weak": (0.15, 0.45), "middle": (0.45, 0.75), "strong": (0.72, 0.97)}
"""Wide enough for 40 questions."""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    """Leave the other cores alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def samples() -> dict[str, list[tuple[str, list[str], np.ndarray]]]:
    """A few samples of every policy: question, texts, and which of them are right."""
    problems = generate_split("nano-math", "test", 40)
    found = {}
    for name in POLICIES:
        policy, tokenizer = load_policy(MODELS / name)
        prompts = [policy_prompt(tokenizer, problem.text) for problem in problems]
        texts = sample(policy, tokenizer, prompts, SAMPLES, seed=0)
        found[name] = [
            (
                problem.text,
                of_one,
                np.array([graded(text, problem.answer) for text in of_one], dtype=np.float64),
            )
            for problem, of_one in zip(problems, texts, strict=True)
        ]
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_solves_as_much_as_its_card_says(name: str, samples: dict[str, Any]) -> None:
    low, high = BANDS[name]
    assert low < np.mean([right.mean() for _, _, right in samples[name]]) < high


def test_the_reward_model_verifies(samples: dict[str, Any]) -> None:
    model, _ = load_reward_model(MODELS / "prm")
    encoder = Encoder(MODELS / "prm")
    for name in POLICIES:
        areas, chosen, single = [], [], []
        for question, texts, right in samples[name]:
            logits = reward_logits(
                model, encoder, question, [split_steps(text) for text in texts], every=False
            )
            scores = np.array([logit[-1] for logit in logits])
            areas.append(within_auc(scores, right))
            chosen.append(best_of_n(scores, right, SAMPLES))
            single.append(right.mean())
        assert np.nanmean(areas) > 0.85
        assert np.mean(chosen) > np.mean(single) + 0.02


def test_the_same_seed_gives_the_same_texts() -> None:
    policy, tokenizer = load_policy(MODELS / "middle")
    prompts = [policy_prompt(tokenizer, problem.text) for problem in generate_split("nano-math", "test", 3)]
    assert sample(policy, tokenizer, prompts, 4, seed=3) == sample(policy, tokenizer, prompts, 4, seed=3)


def test_the_reward_model_has_the_format_of_qwen() -> None:
    from safetensors import safe_open

    with safe_open(MODELS / "prm" / "model.safetensors", "pt") as file:
        keys = set(file.keys())
        hidden = file.get_slice("model.embed_tokens.weight").get_shape()[1]
        assert file.get_slice("score.0.weight").get_shape() == [hidden, hidden]
        assert file.get_slice("score.2.weight").get_shape() == [2, hidden]
    assert {"score.0.weight", "score.0.bias", "score.2.weight", "score.2.bias"} <= keys
    assert all(key.startswith(("model.", "score.")) for key in keys)
    configuration = json.loads((MODELS / "prm" / "config.json").read_text())
    assert configuration["architectures"] == ["Qwen2ForProcessRewardModel"]
    assert (configuration["model_type"], configuration["num_labels"]) == ("qwen2", 2)


def test_the_policies_are_plain_language_models_of_a_few_megabytes() -> None:
    for name in POLICIES:
        configuration = json.loads((MODELS / name / "config.json").read_text())
        assert configuration["architectures"] == ["Qwen2ForCausalLM"]
        assert (MODELS / name / "generation_config.json").is_file()
    files = [path for path in MODELS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10_000_000
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.parametrize("name", [*POLICIES, "prm"])
def test_a_blank_line_and_every_digit_are_tokens_of_their_own(name: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODELS / name)
    pieces = [tokenizer.decode([token]) for token in tokenizer("a) 37+15=52\n\nb)")["input_ids"]]
    assert "".join(pieces) == "a) 37+15=52\n\nb)"
    assert pieces.count("\n\n") == 1
    assert all(len(piece) == 1 for piece in pieces if any(character.isdigit() for character in piece))
    assert len(tokenizer("<extra_0>")["input_ids"]) == len(tokenizer("ки")["input_ids"]) == 1


def test_the_card_quotes_the_measured_figures() -> None:
    card = (Path(MODELS).parent / "MODEL_CARD.md").read_text()
    rows = json.loads((Path(MODELS).parent / "figures.json").read_text())
    assert {(row["policy"], row["dataset"]) for row in rows} == {
        (policy, dataset) for policy in POLICIES for dataset in ("nano-math", "nano-aime")
    }
    for row in rows:
        for figure in ("pass@1", "auc", "best-of-64", "signed error"):
            assert f"{row[figure]['mean']:.3f}" in card
