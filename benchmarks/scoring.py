"""Scoring: all prefixes of solutions in one pass, and their token ids."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measuring import Figure, measured, version
from prmcal.arrays import Floats
from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.models.tokenizing import Tokenization
from prmcal.registry.nano.problems import generate_split
from prmcal.registry.plugins import prms

DOCS = Path(__file__).parents[1] / "docs"
TRAJECTORIES = 4
"""Solutions of each question."""


def requests(questions: int, steps: int) -> list[ScoringRequest]:
    """Return questions with solutions of so many random sums, in the format of the nano problems."""
    generator = random.Random(0)

    def solution() -> tuple[str, ...]:
        names = "abcdefghij" * (steps // 10 + 1)
        sums = [[generator.randrange(10, 99) for _ in range(3)] for _ in range(steps)]
        return tuple(f"{name}) {a}+{b}={total}" for name, (a, b, total) in zip(names, sums, strict=False))

    problems = generate_split("nano-math", "test", questions)
    return [ScoringRequest(problem.text, tuple(solution() for _ in range(TRAJECTORIES))) for problem in problems]


def separately(prm: Any, examples: Sequence[ScoringRequest]) -> Floats:
    """Return the rewards of all prefixes from a row for each prefix, with a padded batch for each solution."""
    trunk, head = prm.modules
    rewards: list[float] = []
    with torch.inference_mode():
        solutions = [(example, steps) for example in examples for steps in example.trajectories]
        for example, solution in solutions:
            prefixes = [prm.tokenize_prefix(example.question, steps) for steps in example.prefixes(solution)]
            rows = [torch.tensor(prefix) for prefix in prefixes]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            hidden = trunk(input_ids=ids, use_cache=False).last_hidden_state
            ends = torch.tensor([len(row) - 1 for row in rows])
            logits = prm.log_odds(head(hidden[torch.arange(len(rows)), ends].float()))
            rewards += torch.sigmoid(logits.double()).tolist()
    return np.array(rewards)


def one_pass(tiny: bool) -> Figure:
    """Score all prefixes in token trees, against a row for each prefix."""
    torch.set_num_threads(1)
    prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32", device="cpu", max_tokens=4096)
    prm.score("Load the model.", [()])
    questions, steps = (2, 4) if tiny else (16, 20)
    examples = requests(questions, steps)

    def together() -> Floats:
        return np.concatenate([scores.reward for batch in prm.score_batch(examples) for scores in batch])

    (seconds, rewards), (peer_seconds, expected) = measured(together, 2), measured(lambda: separately(prm, examples))
    difference = np.abs(rewards - expected).max()
    assert difference < 1e-5, "the rewards are equal"
    return Figure(
        f"all prefixes of {questions * TRAJECTORIES} solutions of {steps} steps, a PRM of 0.9 million parameters",
        seconds,
        f"{version('transformers')} with a row for each prefix",
        peer_seconds,
        f"rewards differ by at most {difference:.0e}",
    )


def trained_tokenizer(tiny: bool) -> tuple[list[str], Any]:
    """Return the pages of the documentation, two if `tiny`, and a BPE of their words: at most 17,000 tokens, or 500."""
    texts = [page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))[: 2 if tiny else None]]
    shipped: Any = prms.create("qwen", checkpoint="nano:prm")
    return texts, shipped.tokenizer.train_new_from_iterator(texts, 500 if tiny else 17_000)


def tokens(tiny: bool) -> Figure:
    """Tokenize each prefix of some texts with a BPE of their words: the rest of each, against all of it.

    The texts are the pages of the documentation, and their paragraphs are the steps.
    """
    texts, tokenizer = trained_tokenizer(tiny)
    prefixes = [
        "\n\n".join(paragraphs[: count + 1])
        for paragraphs in (text.split("\n\n") for text in texts)
        for count in range(len(paragraphs))
    ]
    tokenization = Tokenization(tokenizer)
    seconds, ids = measured(lambda: [tokenization(prefix) for prefix in prefixes])
    peer_seconds, expected = measured(lambda: [tokenizer(prefix, verbose=False)["input_ids"] for prefix in prefixes])
    assert ids == expected, "the ids are equal"
    return Figure(
        f"token ids of {len(prefixes):,} prefixes of {len(texts)} pages, a BPE of {len(tokenizer):,} tokens",
        seconds,
        f"{version('tokenizers')} on each prefix anew",
        peer_seconds,
        "all ids are equal",
    )


BENCHMARKS = (one_pass, tokens)
