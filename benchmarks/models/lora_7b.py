"""Scoring and a LoRA step of a PRM with the shape of Qwen2.5-Math-PRM-7B: one pass, against one pass per prefix.

python -m benchmarks.models.lora_7b [--tiny] [--steps 12] [--trajectories 4]

The weights are random. The benchmark needs a GPU. ``--tiny`` runs the same code with a tiny shape on the CPU, where the
times mean nothing.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config

from prmcal.registry.calibrators.lora.fitting import Packing, batch_parts, quantile_loss, token_ids
from prmcal.registry.calibrators.lora.model import adapted, lora_config, quantile_model
from prmcal.registry.contracts.data import Prefix, ScoringRequest
from prmcal.registry.models.architectures import QwenRewardModel
from prmcal.registry.prms.heads import QwenPRM

LEVELS = (0.1, 0.5, 0.9)
QUESTION_TOKENS, STEP_TOKENS, PASS_TOKENS, REPEATS = 120, 45, 8192, 3
SHAPE_7B = {
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
SHAPE_TINY = SHAPE_7B | {
    "vocab_size": 500,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


class RandomPRM(QwenPRM):
    """The architecture without a checkpoint, with random weights and one token per word."""

    _quantile = None

    def __init__(self, shape: dict[str, Any], device: str, dtype: torch.dtype) -> None:
        super().__init__(checkpoint="random", device=device, batch_tokens=PASS_TOKENS, tree_tokens=2048)
        self.shape, self.weights_type = shape, dtype

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Return a new model with random weights, created on the device."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.weights_type)
        try:
            with torch.device(self.device):
                model = QwenRewardModel(Qwen2Config(**self.shape))
        finally:
            torch.set_default_dtype(before)
        return model.model, model.score

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the words of the question and the steps."""
        return " ".join([question, *steps, ""])

    def tokenize(self, text: str) -> list[int]:
        """Hash each word to a token id."""
        return [zlib.crc32(word.encode()) % self.shape["vocab_size"] for word in text.split()]


class Work:
    """The prefixes of several trajectories of one question, for scoring and training in both ways."""

    def __init__(self, prm: RandomPRM, steps: int, trajectories: int) -> None:
        generator = random.Random(0)

        def words(count: int) -> str:
            return " ".join(str(generator.randrange(10**6)) for _ in range(count))

        self.prm, self.question = prm, words(QUESTION_TOKENS)
        self.trajectories = tuple(
            tuple(words(STEP_TOKENS) for _ in range(steps)) for _ in range(trajectories)
        )
        self.prefixes = [
            Prefix(self.question, path[:count]) for path in self.trajectories for count in range(steps + 1)
        ]
        self.sequences = token_ids(prm, self.prefixes)
        self.tokens = sum(map(len, self.sequences))
        self.rates = np.random.default_rng(0).random(len(self.prefixes))
        self.loss = partial(quantile_loss, levels=LEVELS)
        base = quantile_model(prm, len(LEVELS))
        self.model = adapted(
            base, lora_config(base, 2, 32, 0.1, "every fourth", ("q_proj", "v_proj"), "lora")
        ).train()
        self.optimizer = torch.optim.AdamW([w for w in self.model.parameters() if w.requires_grad], lr=1e-4)

    def score_in_one_pass(self) -> None:
        """Score like the harness."""
        self.prm.score_batch([ScoringRequest(self.question, self.trajectories)])

    def score_per_prefix(self) -> None:
        """Score each prefix as its own row, in padded batches."""
        trunk, head = self.prm.modules
        with torch.inference_mode():
            for rows in self._batches():
                ids, ends = self._padded(rows)
                hidden = trunk(input_ids=ids, use_cache=False).last_hidden_state
                self.prm.log_odds(head(hidden[torch.arange(len(rows)), ends[:, 0]].float())).cpu()

    def train_in_one_pass(self) -> None:
        """Take one step of AdamW on all prefixes."""
        packing = Packing.of(self.prm)
        rows = np.arange(len(self.prefixes))
        for part in batch_parts(rows, self.prefixes, self.sequences, self.rates, packing):
            moved = {name: tensor.to(self.model.device) for name, tensor in part["inputs"].items()}
            target, weight = (part[name].to(self.model.device) for name in ("target", "weight"))
            (self.loss(torch.sigmoid(self.model(**moved)), target) * weight).sum().backward()
        self._step()

    def train_per_prefix(self) -> None:
        """Take the same step on padded batches."""
        for rows in self._batches():
            ids, ends = self._padded(rows)
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
            logits = self.model(input_ids=ids, position_ids=positions, attention_mask=None, leaves=ends)[:, 0]
            target = torch.tensor(self.rates[rows], dtype=torch.float32, device=ids.device)
            (self.loss(torch.sigmoid(logits), target).sum() / len(self.prefixes)).backward()
        self._step()

    def _step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _batches(self) -> list[list[int]]:
        """Group prefixes of similar length, with at most PASS_TOKENS per group."""
        batches: list[list[int]] = []
        longest = 0
        for row in sorted(range(len(self.sequences)), key=lambda row: -len(self.sequences[row])):
            if not batches or longest * (len(batches[-1]) + 1) > PASS_TOKENS:
                batches.append([])
                longest = len(self.sequences[row])
            batches[-1].append(row)
        return batches

    def _padded(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        sequences = [torch.tensor(self.sequences[row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        ends = torch.tensor([[len(each) - 1] for each in sequences])
        return ids.to(self.model.device), ends.to(self.model.device)


def measure(work: Callable[[], None], cuda: bool) -> tuple[float, float]:
    """Return the least time in seconds, and the peak memory in GiB (NaN on a CPU)."""
    times = []
    work()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models.lora_7b")
    parser.add_argument("--tiny", action="store_true", help="use a tiny shape on the CPU")
    parser.add_argument("--steps", type=int, default=12, help="steps per trajectory")
    parser.add_argument("--trajectories", type=int, default=4)
    given = parser.parse_args(arguments)
    cuda = not given.tiny
    if cuda and not torch.cuda.is_available():
        print(
            "A model of 7B parameters needs a GPU with 40 GB or more, and torch finds no GPU. "
            "Use a machine with a GPU, or pass --tiny to test the code.",
            file=sys.stderr,
        )
        return 2
    shape, device, dtype = (SHAPE_7B, "cuda", torch.bfloat16) if cuda else (SHAPE_TINY, "cpu", torch.float32)
    torch.manual_seed(0)
    work = Work(RandomPRM(shape, device, dtype), given.steps, given.trajectories)
    weights = sum(each.numel() for module in work.prm.modules for each in module.parameters())
    where = torch.cuda.get_device_name() if cuda else "CPU"
    print(
        f"{weights / 1e9:.2f}B parameters, {str(dtype).removeprefix('torch.')}, {where}; "
        f"{given.trajectories} trajectories of {given.steps} steps: {len(work.prefixes)} prefixes, {work.tokens} "
        "tokens when each prefix is read separately.\n"
    )
    print("| work | way | seconds | prefix tokens/s | peak memory, GiB | faster by |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, ways in (
        ("scoring", (work.score_in_one_pass, work.score_per_prefix)),
        ("one LoRA step", (work.train_in_one_pass, work.train_per_prefix)),
    ):
        (fast, fast_memory), (slow, slow_memory) = (measure(way, cuda) for way in ways)
        print(
            f"| {name} | one pass | {fast:.3f} | {work.tokens / fast:.0f} | {fast_memory:.1f} | {slow / fast:.1f} |"
        )
        print(f"| {name} | per prefix | {slow:.3f} | {work.tokens / slow:.0f} | {slow_memory:.1f} | 1 |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
