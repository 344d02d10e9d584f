"""Texts that begin like the one before are tokenized from a space on, with exactly the ids of the whole text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from prmcal.registry.models.tokenizing import Tokenization

RECORDED = Path(__file__).parents[2] / "recorded"
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
    r"|\s+"
)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False)
TWO_WORDS = pre_tokenizers.Split(Regex(r"\w+ \w+|\s+|[^\s\w]+|\w+"), "isolated")
STARTS = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
ENDS = processors.TemplateProcessing(single="$A <s>", special_tokens=[("<s>", 0)])
SEQUENCE = pre_tokenizers.Sequence
KINDS = {
    "qwen": (SEQUENCE([pre_tokenizers.Split(Regex(LLAMA.replace("{1,3}", "")), "isolated"), BYTES]), None),
    "llama": (SEQUENCE([pre_tokenizers.Split(Regex(LLAMA), "isolated"), BYTES]), STARTS),
    "gpt": (WORDS, processors.ByteLevel(trim_offsets=True)),
    "digits": (SEQUENCE([pre_tokenizers.Digits(individual_digits=True), WORDS]), None),
    "spaces": (pre_tokenizers.Metaspace(split=False), STARTS),
}
UNKNOWN = {"two words": (SEQUENCE([TWO_WORDS, BYTES]), None), "an end": (WORDS, ENDS)}


def solutions() -> list[tuple[str, ...]]:
    """Recorded solutions, and random ones of characters that tokenizers treat in their own ways."""
    lines = (RECORDED / "math_cot_100_8samples.jsonl").read_text().splitlines()[:6]
    texts = [f"{row['question']}\n\n{answer}" for row in map(json.loads, lines) for answer in row["response"][:2]]
    generator = random.Random(0)
    characters = "ab Zé e\u0301 \u0308\u3000\xa0 \n\n\t\r 's 12 345 … 中文 ▁ 🤔 <s> \u1680\x1c\x85 '. ,!? "
    texts += ["\n\n".join("".join(generator.choices(characters, k=9)) for _ in range(8)) for _ in range(40)]
    return [tuple(text.split("\n\n")) for text in texts]


def prefixes() -> Iterator[str]:
    for steps in solutions():
        for count in range(1, len(steps) + 1):
            yield "\n\n".join(steps[:count]) + "<s>"


def trained(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer of a kind, trained on the recorded solutions."""
    words, processor = (KINDS | UNKNOWN)[kind]
    tokenizer = Tokenizer(models.BPE(byte_fallback=kind == "spaces", unk_token="<s>"))
    tokenizer.normalizer = normalizers.NFC() if kind == "qwen" else None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace() if kind == "spaces" else words
    alphabet = [] if kind == "spaces" else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((step for steps in solutions() for step in steps), trainer)
    tokenizer.pre_tokenizer = words
    if processor is not None:
        tokenizer.post_processor = processor
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<s>")


def whole_texts(monkeypatch: pytest.MonkeyPatch, tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    """Compare the ids of all prefixes with those of whole texts. Return how many were tokenized as a whole, and all."""
    texts = list(prefixes())
    expected = [tokenizer(text)["input_ids"] for text in texts]
    tokenization, calls, original = Tokenization(tokenizer), [], type(tokenizer)._encode_plus

    def encode(self: PreTrainedTokenizerFast, text: str, **how: object) -> object:
        calls.append(text)
        return original(self, text, **how)

    monkeypatch.setattr(type(tokenizer), "_encode_plus", encode)
    assert [tokenization(text) for text in texts] == expected
    return len(calls), len(texts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ids_of_a_prefix_are_those_of_its_whole_text(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    whole, count = whole_texts(monkeypatch, trained(kind))
    assert whole < count / 3


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_tokenizer_whose_words_may_go_on_behind_a_space_gets_whole_texts(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    whole, count = whole_texts(monkeypatch, trained(kind))
    assert whole >= count


@pytest.mark.parametrize(
    "token", [AddedToken("of the"), AddedToken("!", rstrip=True), AddedToken("is", single_word=True)]
)
def test_an_added_token_that_reaches_across_a_space_is_recognised(
    monkeypatch: pytest.MonkeyPatch, token: AddedToken
) -> None:
    tokenizer = trained("gpt")
    tokenizer.add_tokens([token])
    whole, count = whole_texts(monkeypatch, tokenizer)
    assert whole >= count
