"""Measures the shipped models and prints the figures as JSON: `python -m registry.nano.training.evaluate`.

The gate comes first: does the reward model verify? Then: are the policies as good as they should be, and is the reward
model overconfident where it should be?
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from registry.nano.problems import Problem, generate_split
from registry.nano.training.examples import Encoder, Judged, collate
from registry.nano.training.folders import MODELS, load_policy, load_reward_model
from registry.nano.training.labels import label_prefixes
from registry.nano.training.sampling import graded, policy_prompt, sample, split_steps

__all__ = ["best_of_n", "evaluate", "interval", "within_auc"]

POLICIES = ("weak", "middle", "strong")
SAMPLES = 64
TRAJECTORIES = 4
FOLLOW_UPS = 8
Array = NDArray[np.float64]


def within_auc(scores: Array, right: Array) -> float:
    """Area under the ROC curve of one question's samples; NaN if all are right or all wrong. Ties count half."""
    good, bad = scores[right > 0], scores[right == 0]
    if not len(good) or not len(bad):
        return math.nan
    difference = good[:, None] - bad[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def best_of_n(scores: Array, right: Array, n: int) -> float:
    """Exact accuracy of the best-scored of n samples drawn without replacement; ties are shared."""
    total = math.comb(len(scores), n)
    accuracy, below = 0.0, 0
    for value in np.unique(scores):
        group = scores == value
        upto = below + int(group.sum())
        accuracy += right[group].mean() * (math.comb(upto, n) - math.comb(below, n)) / total
        below = upto
    return float(accuracy)


def interval(values: Sequence[float], seed: int = 0) -> dict[str, float]:
    """Mean over questions, its 95% bootstrap interval, and their number. NaNs are left out."""
    kept = np.array([value for value in values if not math.isnan(value)])
    if not len(kept):
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    means = np.random.default_rng(seed).choice(kept, (2000, len(kept))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(kept.mean()), "low": float(low), "high": float(high), "n": len(kept)}


@torch.no_grad()
def reward_logits(
    model: Any, encoder: Encoder, question: str, chains: Sequence[Sequence[str]], every: bool
) -> list[Array]:
    """Log-odds of good over bad after every step of every chain (0 to T), or after the last one only."""
    marks: list[list[tuple[str, ...]]] = []
    judged = []
    for steps in chains:
        lengths = range(len(steps) + 1) if every else [len(steps)]
        marks.append([tuple(steps[:length]) for length in lengths])
        judged.append(
            Judged(tuple(steps), (False,) * len(steps), dict.fromkeys(lengths, 0.0), complete=False)
        )
    distinct = {prefix: 0.0 for prefixes in marks for prefix in prefixes}
    for start in range(0, len(judged), 16):
        part = judged[start : start + 16]
        example = encoder.example(question, part, system=True)
        batch = collate([example], encoder.pad)
        hidden = model.model(
            input_ids=batch["input_ids"],
            position_ids=batch["position_ids"],
            attention_mask=batch["attention_mask"],
            use_cache=False,
        ).last_hidden_state[0, example.tree.leaves]
        head = model.score(hidden)
        order = dict.fromkeys(prefix for prefixes in marks[start : start + 16] for prefix in prefixes)
        for prefix, logit in zip(order, (head[:, 1] - head[:, 0]).tolist(), strict=True):
            distinct[prefix] = logit
    return [np.array([distinct[prefix] for prefix in prefixes]) for prefixes in marks]


def evaluate_policy(
    name: str,
    dataset: str,
    problems: Sequence[Problem],
    reward: Callable[[str, Sequence[Sequence[str]], bool], list[Array]],
    models: Path,
    seed: int,
) -> dict[str, Any]:
    """All figures of one policy on one data set."""
    policy, tokenizer = load_policy(models / name)
    started = time.time()
    prompts = [policy_prompt(tokenizer, problem.text) for problem in problems]
    texts = sample(policy, tokenizer, prompts, SAMPLES, seed)
    seconds = time.time() - started
    tokens = sum(len(tokenizer(text)["input_ids"]) + 1 for found in texts for text in found)
    right = [
        np.array([graded(text, problem.answer) for text in found], dtype=np.float64)
        for problem, found in zip(problems, texts, strict=True)
    ]
    last = []
    for problem, found in zip(problems, texts, strict=True):
        last.append(
            np.array([logits[-1] for logits in reward(problem.text, [split_steps(t) for t in found], False)])
        )
    trajectories = [[split_steps(text) for text in found[:TRAJECTORIES]] for found in texts]
    labelled = label_prefixes(policy, tokenizer, problems, trajectories, FOLLOW_UPS, seed + 1)
    errors: list[float] = []
    partial: list[float] = []
    for rows in labelled:
        logits = reward(rows[0].question, [row.steps for row in rows], True)
        predicted = 1 / (1 + np.exp(-np.concatenate(logits)))
        share = np.concatenate([np.array(row.successes) / row.follow_ups for row in rows])
        errors.append(float((predicted - share).mean()))
        partial.append(float(((share > 0) & (share < 1)).mean()))
    return {
        "policy": name,
        "dataset": dataset,
        "pass@1": interval([float(values.mean()) for values in right]),
        "auc": interval([within_auc(scores, values) for scores, values in zip(last, right, strict=True)]),
        "best-of-64": interval(
            [best_of_n(scores, values, SAMPLES) for scores, values in zip(last, right, strict=True)]
        ),
        "best-of-8": interval(
            [best_of_n(scores, values, 8) for scores, values in zip(last, right, strict=True)]
        ),
        "pass@64": interval([float(values.max()) for values in right]),
        "signed error": interval(errors),
        "prefixes with 0 < k < n": interval(partial),
        "pass@1 by level": {
            str(level): float(
                np.mean([v.mean() for v, p in zip(right, problems, strict=True) if p.level == level])
            )
            for level in sorted({problem.level for problem in problems})
        },
        "sampled tokens per second": round(tokens / seconds),
    }


def evaluate(
    models: Path, counts: dict[str, int], names: Sequence[str] = POLICIES, seed: int = 0
) -> list[dict[str, Any]]:
    """Figures of every policy on every data set, on the first test questions."""
    model, _ = load_reward_model(models / "prm")
    encoder = Encoder(models / "prm")

    def reward(question: str, chains: Sequence[Sequence[str]], every: bool) -> list[Array]:
        return reward_logits(model, encoder, question, chains, every)

    rows = []
    for dataset, count in counts.items():
        problems = generate_split(dataset, "test", count)
        for name in names:
            rows.append(evaluate_policy(name, dataset, problems, reward, models, seed))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Measure, print a line per policy and data set, and write all of it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--models", type=Path, default=MODELS, help="folder with weak, middle, strong and prm"
    )
    parser.add_argument("--questions", type=int, default=200, help="test questions of nano-math")
    parser.add_argument("--aime-questions", type=int, default=100, help="test questions of nano-aime")
    parser.add_argument("--output", type=Path, default=None, help="JSON file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = evaluate(
        arguments.models, {"nano-math": arguments.questions, "nano-aime": arguments.aime_questions}
    )
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
