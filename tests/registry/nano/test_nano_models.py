"""The shipped nano models have the properties in their model card, and the training command runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.documents.nano import diversity_of
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.steps import split_steps

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / "registry" / "nano" / "models"
POLICIES = {"weak": 0.43, "middle": 0.54, "strong": 0.78}
"""Pass@1 on the calibration split of nano-math."""
FORMATS = {"qwen": "prm", "shepherd": "shepherd", "reasoneval": "reasoneval"}
"""The shipped PRM of each format."""
QUESTIONS, SAMPLES = 24, 8


@dataclass(frozen=True)
class Scored:
    """The samples of one policy: whether each is right, its answer (-1 for none), and its last logit by PRM.

    Arrays are (questions, samples).
    """

    correct: NDArray[np.bool_]
    answers: NDArray[np.int64]
    logits: dict[str, NDArray[np.float64]]


@pytest.fixture(scope="module")
def scored(one_thread: None) -> dict[str, Scored]:
    dataset = datasets.create("nano-math")
    questions = dataset.questions("test", QUESTIONS)
    judges = {name: prms.create(name, checkpoint=f"nano:{folder}", dtype="float32") for name, folder in FORMATS.items()}
    prefixes = [Prefix(question.text) for question in questions]
    found = {}
    for name in POLICIES:
        llm = llms.create("transformers", checkpoint=f"nano:{name}")
        completions = llm.generate(prefixes, SAMPLES, Sampling(max_tokens=256), seed=0)
        llm.close()
        correct = np.zeros((QUESTIONS, SAMPLES), dtype=bool)
        answers = np.full((QUESTIONS, SAMPLES), -1)
        logits = {name: np.zeros((QUESTIONS, SAMPLES)) for name in judges}
        for row, (question, drawn) in enumerate(zip(questions, completions, strict=True)):
            texts = [completion.text for completion in drawn]
            correct[row] = [dataset.grade(question, text)[0] == "correct" for text in texts]
            boxed = [re.findall(r"boxed{(\d+)}", text) for text in texts]
            answers[row] = [int(box[-1]) if box else -1 for box in boxed]
            for judge, prm in judges.items():
                scores = prm.score(question.text, [split_steps(text) for text in texts])
                logits[judge][row] = [score.logit[-1] for score in scores]
        found[name] = Scored(correct, answers, logits)
    return found


def test_the_policies_are_as_good_as_their_names(scored: dict[str, Scored]) -> None:
    accuracy = {name: float(found.correct.mean()) for name, found in scored.items()}
    assert accuracy["weak"] < accuracy["middle"] < accuracy["strong"]
    assert accuracy == pytest.approx(POLICIES, abs=0.12)


@pytest.mark.parametrize("judge", FORMATS)
def test_a_reward_model_tells_right_from_wrong_within_a_question(judge: str, scored: dict[str, Scored]) -> None:
    areas = []
    for found in scored.values():
        mixed = [row for row in range(QUESTIONS) if 0 < found.correct[row].sum() < SAMPLES]
        areas += [roc_auc_score(found.correct[row], found.logits[judge][row]) for row in mixed]
    assert len(areas) >= QUESTIONS
    assert np.mean(areas) > 0.7


@pytest.mark.parametrize("judge", FORMATS)
@pytest.mark.parametrize(("name", "margin"), [("weak", 0.03), ("middle", 0.02), ("strong", 0.0)])
def test_a_few_scored_samples_are_better_than_one(
    name: str, margin: float, judge: str, scored: dict[str, Scored]
) -> None:
    found = scored[name]
    best = best_of_n(found.logits[judge], found.correct, [4])
    assert best.mean() > found.correct.mean() + margin


def test_the_weak_policy_fails_many_questions_in_the_same_way(scored: dict[str, Scored]) -> None:
    found = scored["weak"]
    assert 0.1 < np.mean(found.correct.sum(axis=1) == 0) < 0.6
    assert diversity_of(found.answers, found.correct) < 4


def test_the_reward_model_has_the_weights_of_its_format_and_no_others() -> None:
    from safetensors import safe_open

    with safe_open(MODELS / "prm" / "model.safetensors", "pt") as file:
        keys = set(file.keys())
        hidden = file.get_slice("model.embed_tokens.weight").get_shape()[1]
        assert file.get_slice("score.0.weight").get_shape() == [hidden, hidden]
        assert file.get_slice("score.2.weight").get_shape() == [2, hidden]
    head = {key for key in keys if not key.startswith("model.")}
    assert head == {"score.0.weight", "score.0.bias", "score.2.weight", "score.2.bias"}
    configuration = json.loads((MODELS / "prm" / "config.json").read_text())
    assert configuration["architectures"] == ["Qwen2ForProcessRewardModel"]
    assert (configuration["model_type"], configuration["num_labels"]) == ("qwen2", 2)


def test_the_models_are_a_few_megabytes_without_code_or_pickles() -> None:
    files = [path for path in MODELS.rglob("*") if path.is_file()]
    assert {path.relative_to(MODELS).parts[0] for path in files} == {*POLICIES, *FORMATS.values()}
    assert {path.suffix for path in files} == {".safetensors", ".json", ".jinja"}
    assert sum(path.stat().st_size for path in files) < 12_000_000


@pytest.mark.parametrize("name", [*POLICIES, *FORMATS.values()])
def test_a_blank_line_and_every_digit_are_tokens_of_their_own(name: str) -> None:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(MODELS / name)
    pieces = [tokenizer.decode([token]) for token in tokenizer("a) 37+15=52\n\nb)")["input_ids"]]
    assert "".join(pieces) == "a) 37+15=52\n\nb)"
    assert pieces.count("\n\n") == 1
    assert all(len(piece) == 1 for piece in pieces if any(character.isdigit() for character in piece))
    assert len(tokenizer("<extra_0>")["input_ids"]) == 1


@pytest.mark.filterwarnings("default")  # those of the trainer
def test_the_training_command_makes_all_models_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tools.nano_training import __main__ as training
    from tools.nano_training import labels, lessons, pipeline, teaching

    monkeypatch.setattr(pipeline, "FOLLOW_UPS", 1)
    monkeypatch.setattr(labels, "SAMPLING", Sampling(max_tokens=24))
    for module in (lessons, teaching):
        monkeypatch.setattr(module, "BATCH_TOKENS", 200)

    folders = ["--work", str(tmp_path / "work"), "--models", str(models := tmp_path / "models")]
    monkeypatch.setattr("sys.argv", ["nano_training", "--scale", "0.0002", *folders])

    def made() -> list[str]:
        """Run the training command with a five-thousandth of its steps, and return what it makes."""
        training.main()
        lines = capfd.readouterr().out.splitlines()
        return [line.split(":")[0] for line in lines if line.endswith(" s")]

    assert made() == [
        "tokenizer", "base", "base-again", "solver", "verifier", "verifier-again",
        *POLICIES, "labels", "prm", "shepherd", "reasoneval",
    ]  # fmt: skip
    assert {path.name for path in models.iterdir()} == {*POLICIES, *FORMATS.values()}
    (tmp_path / "work" / "labels.jsonl").unlink()
    assert made() == ["labels"]
    for name, folder in FORMATS.items():
        (score,) = prms.create(name, checkpoint=str(models / folder)).score("Start with 10.", [["a) 10+1=11"]])
        assert score.logit.shape == (2,)
        assert np.isfinite(score.logit).all()
