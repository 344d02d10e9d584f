"""The PRMs `token-classifier` and `sequence-classifier`: checkpoints as transformers' trainer leaves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from prmcal import TransformersPRM
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from tests.registry.conftest import QWEN2

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34"), ())
Saved = Callable[..., Path]


def create(plugin: str, folder: Path, **arguments: Any) -> TransformersPRM:
    built = prms.create(plugin, checkpoint=str(folder), **arguments)
    assert isinstance(built, TransformersPRM)
    return built


def rows_of_trl(tokenizer: Any, question: str, steps: Sequence[str], labels: Sequence[int]) -> dict[str, list[int]]:
    """The tokens and labels that TRL's PRMTrainer makes of a row: parts apart, a label at the end of each step."""
    ids = [tokenizer.bos_token_id] if tokenizer.bos_token_id is not None else []
    ids += tokenizer(question, add_special_tokens=False)["input_ids"]
    targets = [-100] * len(ids)
    for step, label in zip(steps, labels, strict=True):
        own = tokenizer(step, add_special_tokens=False)["input_ids"]
        own += tokenizer("\n", add_special_tokens=False)["input_ids"]
        ids, targets = ids + own, [*targets, *[-100] * (len(own) - 1), label]
    return {"input_ids": ids, "labels": targets}


@pytest.fixture(scope="module")
def trained(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token classifier, trained as TRL's PRMTrainer does: wrong sums are bad steps."""
    from transformers import (
        DataCollatorForTokenClassification,
        Qwen2Config,
        Qwen2ForTokenClassification,
        Trainer,
        TrainingArguments,
    )

    folder = tmp_path_factory.mktemp("trl")
    tokenizer: Any = AutoTokenizer.from_pretrained(tokenizer_folder)
    rows = [
        rows_of_trl(tokenizer, QUESTION, steps, [good, good])
        for good in (0, 1)
        for steps in [TRAJECTORIES[1 - good][:2]]
    ]
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = Qwen2ForTokenClassification(Qwen2Config(**QWEN2, vocab_size=len(tokenizer)))
        trainer = Trainer(
            model,
            TrainingArguments(
                str(folder / "steps"),
                max_steps=40,
                learning_rate=1e-2,
                report_to=[],
                save_strategy="no",
                use_cpu=True,
                disable_tqdm=True,
                logging_strategy="no",
            ),
            train_dataset=rows * 4,
            data_collator=DataCollatorForTokenClassification(tokenizer),
            processing_class=tokenizer,
        )
        trainer.train()
    trainer.save_model(str(folder))
    return folder


@pytest.fixture(scope="module")
def saved(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Makes an untrained classifier of a type of model, with a tokenizer."""

    def make(auto: Any, model_type: str = "qwen2", special: dict[str, str] | None = None, **config: Any) -> Path:
        from transformers import AutoConfig

        folder = tmp_path_factory.mktemp(model_type)
        tokenizer: Any = AutoTokenizer.from_pretrained(tokenizer_folder)
        tokenizer.add_special_tokens(special or {})
        tokenizer.save_pretrained(folder)
        sizes = {**QWEN2, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        made = AutoConfig.for_model(model_type, **{**sizes, "initializer_range": 0.2, **config})
        with torch.random.fork_rng():
            torch.manual_seed(6)
            auto.from_config(made).save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="module")
def rewarding(saved: Saved) -> Path:
    """A reward model of one value, as TRL's RewardTrainer leaves it."""
    return saved(AutoModelForSequenceClassification, "llama", num_labels=1)


def test_classifiers_conform(trained: Path, rewarding: Path) -> None:
    for plugin in (create("token-classifier", trained), create("sequence-classifier", rewarding)):
        assert [check.message for check in run_checks(plugin) if not check.passed] == []


def logits_at_labels(folder: Path, question: str, steps: Sequence[str]) -> np.ndarray[Any, Any]:
    """The outputs at the labels of TRL's row, from one pass of transformers' own class, of shape (steps, outputs)."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForTokenClassification.from_pretrained(folder).eval()
    row = rows_of_trl(tokenizer, question, steps, [1] * len(steps))
    with torch.no_grad():
        logits = model(torch.tensor([row["input_ids"]])).logits[0]
    return np.asarray(logits[torch.tensor(row["labels"]) == 1].numpy())


def test_a_prm_of_trl_needs_no_arguments(trained: Path) -> None:
    """Its scores are those at the positions that TRL trains, and it has learnt what these say."""
    for steps, scores in zip(
        TRAJECTORIES[:2], create("token-classifier", trained).score(QUESTION, TRAJECTORIES[:2]), strict=True
    ):
        bad, good = log_softmax(logits_at_labels(trained, QUESTION, steps), axis=1).T
        np.testing.assert_allclose(scores.logit[1:], good - bad, atol=1e-5)
        assert ((scores.reward[1:3] > 0.9) if steps == TRAJECTORIES[0] else (scores.reward[1:3] < 0.1)).all()


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen3"])
def test_each_part_is_tokenized_by_itself_behind_the_first_token(model_type: str, saved: Saved) -> None:
    folder = saved(
        AutoModelForTokenClassification,
        model_type,
        {"bos_token": "<|im_start|>"},
        **HEADS.get(model_type, {}),
    )
    (scores,) = create("token-classifier", folder).score(QUESTION, TRAJECTORIES[:1])
    logits = logits_at_labels(folder, QUESTION, TRAJECTORIES[0])
    np.testing.assert_allclose(scores.logit[1:], logits[:, 1] - logits[:, 0], atol=1e-4)


HEADS: dict[str, dict[str, Any]] = {"qwen3": {"head_dim": 16}, "mistral": {"sliding_window": None}}


def test_a_marker_a_separator_and_a_template_say_what_is_read(trained: Path) -> None:
    """Each prefix is read alone by transformers' own class: the text as it is, or as the assistant's message."""
    tokenizer: Any = AutoTokenizer.from_pretrained(trained)
    model: Any = AutoModelForTokenClassification.from_pretrained(trained).eval()
    chat = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Judge."}, {"role": "user", "content": QUESTION}],
        tokenize=False,
        add_generation_prompt=True,
    )
    numbered = "Q: {{ question }}\n{% for step in steps %}{{ loop.index }}. {{ step }};{% endfor %}"
    formats: tuple[tuple[dict[str, Any], Callable[[Sequence[str]], str]], ...] = (
        (
            {"template": "native", "separator": "\n\n", "system_prompt": "Judge."},
            lambda steps: chat + "\n\n".join(steps),
        ),
        (
            {"template": numbered},
            lambda steps: f"Q: {QUESTION}\n" + "".join(f"{i}. {step};" for i, step in enumerate(steps, 1)),
        ),
    )
    for arguments, text in formats:
        plugin = create("token-classifier", trained, marker="<extra_0>", tokenized="whole", label=0, **arguments)
        for steps, scores in zip(TRAJECTORIES, plugin.score(QUESTION, TRAJECTORIES), strict=True):
            for count in range(len(steps) + 1):
                ids = tokenizer(text(steps[:count]) + "<extra_0>", return_tensors="pt").input_ids
                with torch.no_grad():
                    bad, good = model(ids).logits[0, -1]
                assert scores.logit[count] == pytest.approx((bad - good).item(), abs=1e-5)


def test_a_reward_model_reads_the_whole_chat_as_transformers_does(rewarding: Path) -> None:
    """So it does if the chat ends with tokens that are padding elsewhere, which transformers ignores."""
    tokenizer: Any = AutoTokenizer.from_pretrained(rewarding)
    model: Any = AutoModelForSequenceClassification.from_pretrained(rewarding).eval()
    for plugin in (
        create("sequence-classifier", rewarding),
        create("sequence-classifier", rewarding, marker=tokenizer.pad_token),
    ):
        for steps, scores in zip(TRAJECTORIES, plugin.score(QUESTION, TRAJECTORIES), strict=True):
            for count in range(len(steps) + 1):
                turns = [
                    {"role": "user", "content": QUESTION},
                    {"role": "assistant", "content": "\n\n".join(steps[:count])},
                ]
                text = tokenizer.apply_chat_template(turns, tokenize=False) + plugin.marker
                with torch.no_grad():
                    value = model(**tokenizer(text, add_special_tokens=False, return_tensors="pt")).logits
                assert scores.logit[count] == pytest.approx(value.item(), abs=1e-5)


def test_outputs_are_chosen_by_index_or_name(saved: Saved) -> None:
    names = {0: "negative", 1: "neutral", 2: "positive"}
    folder = saved(AutoModelForTokenClassification, id2label=names, label2id={v: k for k, v in names.items()})
    logits = logits_at_labels(folder, QUESTION, TRAJECTORIES[0])
    chosen: tuple[tuple[Any, list[int]], ...] = (
        (2, [2]),
        ("positive", [2]),
        (["neutral", 2], [1, 2]),
        ([0], [0]),
    )
    for label, good in chosen:
        (scores,) = create("token-classifier", folder, label=label).score(QUESTION, TRAJECTORIES[:1])
        chance = np.exp(log_softmax(logits, axis=1))[:, good].sum(axis=1)
        np.testing.assert_allclose(scores.reward[1:], chance, atol=1e-5)
    refused: tuple[tuple[Any, str], ...] = (
        (None, r"Set 'label' to the output .* has 0 \(negative\), 1 \(neutral\), 2 \(positive\)"),
        ("good", "has no output 'good' for 'label'"),
        (3, "has no output 3 for 'label'"),
        ([0, 1, 2], "must name some, but not all, of the outputs"),
    )
    for label, message in refused:
        with pytest.raises(InvalidArgumentsError, match=message):
            create("token-classifier", folder, label=label)


def test_independent_outputs_and_probabilities_are_read_as_such(saved: Saved) -> None:
    several = saved(AutoModelForTokenClassification, num_labels=3, problem_type="multi_label_classification")
    (scores,) = create("token-classifier", several, label=1).score(QUESTION, TRAJECTORIES[:1])
    expected = logits_at_labels(several, QUESTION, TRAJECTORIES[0])[:, 1]
    np.testing.assert_allclose(scores.logit[1:], expected, atol=1e-5)
    with pytest.raises(InvalidArgumentsError, match="must name one of the outputs"):
        create("token-classifier", several, label=[0, 1])
    single = saved(AutoModelForTokenClassification, num_labels=1, initializer_range=0.05)
    (scores,) = create("token-classifier", single, scale="probability").score(QUESTION, TRAJECTORIES[:1])
    expected = logits_at_labels(single, QUESTION, TRAJECTORIES[0])[:, 0]
    np.testing.assert_allclose(scores.reward[1:], expected.clip(1e-7, 1 - 1e-7), atol=1e-5)


def test_other_kinds_of_models_are_refused(policy_folder: Path, saved: Saved) -> None:
    with pytest.raises(PluginFailedError, match=r"score\.bias is missing\..* the PRM plugin shepherd or judge"):
        create("token-classifier", policy_folder).score(QUESTION, TRAJECTORIES)
    both_ways = saved(AutoModelForTokenClassification, "bert")
    with pytest.raises(PluginFailedError, match=r"is a BertForTokenClassification.*causal language models"):
        create("token-classifier", both_ways).score(QUESTION, TRAJECTORIES)
    with pytest.raises(InvalidArgumentsError, match="leaves out a step"):
        create("token-classifier", policy_folder, template="{{ question }}")


def test_all_that_decides_the_scores_is_in_the_identity(trained: Path) -> None:
    variants: Sequence[dict[str, Any]] = (
        {},
        {"marker": "<extra_0>"},
        {"separator": "\n\n"},
        {"template": "native"},
        {"template": "native", "system_prompt": "Judge."},
        {"tokenized": "whole"},
        {"label": 0},
        {"scale": "probability"},
    )
    identities = {json.dumps(create("token-classifier", trained, **each).identity()) for each in variants}
    assert len(identities) == len(variants)
