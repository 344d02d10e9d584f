"""Sampling from a nano policy with transformers' own generate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["graded", "policy_prompt", "sample", "split_steps"]

BATCH = 256
MAX_NEW_TOKENS = 256


def policy_prompt(tokenizer: Any, question: str, steps: Sequence[str] = ()) -> str:
    """What a policy reads: the question as a user's turn, then the steps so far and a blank line."""
    messages = [{"role": "user", "content": question}]
    prompt: str = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return prompt + "".join(step + "\n\n" for step in steps)


def split_steps(text: str) -> list[str]:
    """The steps of a completion."""
    return [step for step in text.split("\n\n") if step]


def graded(text: str, answer: str) -> bool:
    """Whether a completion's box holds the answer."""
    return f"\\boxed{{{answer}}}" in text


@torch.no_grad()
def sample(model: Any, tokenizer: Any, prompts: Sequence[str], count: int, seed: int) -> list[list[str]]:
    """Sample completions at temperature 1, the model's own distribution.

    Parameters
    ----------
    model : Qwen2ForCausalLM
        A policy, in bfloat16 for speed.
    tokenizer : PreTrainedTokenizerFast
        Its tokenizer.
    prompts : sequence of str
        Already in the chat format.
    count : int
        Completions per prompt.
    seed : int
        Of torch's generator. The same seed and prompts give the same texts.

    Returns
    -------
    list of lists of str
        `count` texts per prompt, without the end-of-turn token.
    """
    torch.manual_seed(seed)
    ids = [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
    jobs = sorted((len(tokens), index) for index, tokens in enumerate(ids) for _ in range(count))
    texts: list[list[str]] = [[] for _ in prompts]
    for start in range(0, len(jobs), BATCH):
        rows = [index for _, index in jobs[start : start + BATCH]]
        width = max(len(ids[index]) for index in rows)
        input_ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        attention_mask = torch.zeros((len(rows), width), dtype=torch.long)
        for row, index in enumerate(rows):
            input_ids[row, width - len(ids[index]) :] = torch.tensor(ids[index])
            attention_mask[row, width - len(ids[index]) :] = 1
        output = model.generate(
            input_ids=input_ids,
            attention_mask=attention_mask,
            do_sample=True,
            use_cache=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=MAX_NEW_TOKENS,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        for index, text in zip(
            rows, tokenizer.batch_decode(output[:, width:], skip_special_tokens=True), strict=True
        ):
            texts[index].append(text)
    return texts
