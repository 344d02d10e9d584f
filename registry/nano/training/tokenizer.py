"""The nano models' tokenizer: byte-level BPE in the manner of Qwen2, with a few hundred tokens."""

from __future__ import annotations

import random
from pathlib import Path

from prmcal.registry.nano.problems import DATASETS, draw_problem, solution_steps

__all__ = ["MARKER", "SYSTEM", "build_tokenizer"]

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
"""System message of the Qwen2.5-Math reward models."""
MARKER = "<extra_0>"
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", MARKER, "ки"]
VOCABULARY = 448
# Qwen2's own expression: every digit is a token of its own, and a blank line is never merged with what precedes it
# unless that is punctuation, which the nano solutions avoid at the end of a step.
WORD_OR_DIGIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
SYMBOLS_OR_SPACE = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PRE_TOKENIZER = f"{WORD_OR_DIGIT}|{SYMBOLS_OR_SPACE}"
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def corpus() -> list[str]:
    """Texts to learn the merges from: every word of the chat format, the questions and the solutions."""
    generator = random.Random("prmcal tokenizer")
    texts = [f"system\n{SYSTEM}", "user\n", "assistant\n"] * 200
    for dataset in DATASETS:
        for index in range(500):
            problem = draw_problem(generator, dataset, index % 5 + 1)
            texts += [problem.text, "\n\n".join(solution_steps(problem))]
    return texts


def build_tokenizer(folder: Path) -> None:
    """Learn the merges and write a folder that `AutoTokenizer.from_pretrained` reads."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENIZER), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=50,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", MARKER, "ки"],
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(folder)
