"""The tokenizer of the nano models: byte-level BPE like that of Qwen2, with a few hundred tokens."""

from __future__ import annotations

import random
from pathlib import Path

from prmcal.registry.nano.problems import DATASETS, draw_problem, solution_steps
from prmcal.steps import join_steps

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
"""The system message of the Qwen2.5-Math reward models."""
MARKER = "<extra_0>"
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", MARKER, "ки"]
VOCABULARY = 448
# The expression of Qwen2. Each digit is one token. A blank line is merged only with punctuation before it, and no step
# of a nano solution ends in punctuation.
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
    """Return the texts that the merges are learned from: the chat format, questions and solutions."""
    generator = random.Random("prmcal tokenizer")
    texts = [f"system\n{SYSTEM}", "user\n", "assistant\n"] * 200
    for dataset in DATASETS:
        for index in range(500):
            problem = draw_problem(generator, dataset, index % 5 + 1)
            texts += [problem.text, join_steps(solution_steps(problem))]
    return texts


def build_tokenizer(folder: Path) -> None:
    """Train the tokenizer and write it to a folder for `AutoTokenizer.from_pretrained`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
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
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", MARKER, "ки"],
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(folder)
