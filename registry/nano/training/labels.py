"""Monte Carlo labels: how often the strong policy succeeds from a prefix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from registry.nano.problems import Problem
from registry.nano.training.sampling import graded, policy_prompt, sample, split_steps

__all__ = ["Labelled", "label_prefixes", "read_labels", "sample_trajectories", "write_labels"]


@dataclass(frozen=True)
class Labelled:
    """A trajectory with the number of successes of the follow-ups of each of its prefixes.

    Attributes
    ----------
    question : str
        The question's text.
    steps : list of str
        The trajectory.
    successes : list of int
        Successes after 0, 1, ..., T steps, out of `follow_ups`.
    follow_ups : int
        Follow-ups per prefix.
    """

    question: str
    steps: list[str]
    successes: list[int]
    follow_ups: int


def sample_trajectories(
    model: Any, tokenizer: Any, problems: Sequence[Problem], count: int, seed: int
) -> list[list[list[str]]]:
    """Sample trajectories from bare questions: problems x count x steps."""
    prompts = [policy_prompt(tokenizer, problem.text) for problem in problems]
    texts = sample(model, tokenizer, prompts, count, seed)
    return [[split_steps(text) for text in found] for found in texts]


def label_prefixes(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    trajectories: Sequence[Sequence[list[str]]],
    follow_ups: int,
    seed: int,
) -> list[list[Labelled]]:
    """Count the successes of follow-ups from every prefix.

    Equal prefixes of a question are one; a prefix that already holds a boxed answer needs no follow-ups.

    Returns
    -------
    list of lists of Labelled
        As the trajectories: problems x count.
    """
    prefixes: dict[tuple[int, tuple[str, ...]], None] = {}
    for index, found in enumerate(trajectories):
        for steps in found:
            for count in range(len(steps) + 1):
                prefixes[index, tuple(steps[:count])] = None
    asked = [key for key in prefixes if "\\boxed" not in "".join(key[1])]
    prompts = [policy_prompt(tokenizer, problems[index].text, steps) for index, steps in asked]
    successes = {
        key: sum(graded(text, problems[key[0]].answer) for text in texts)
        for key, texts in zip(asked, sample(model, tokenizer, prompts, follow_ups, seed), strict=True)
    }

    def count_of(index: int, steps: list[str]) -> int:
        key = (index, tuple(steps))
        if key in successes:
            return successes[key]
        return follow_ups * graded("\n\n".join(steps), problems[index].answer)

    return [
        [
            Labelled(
                problems[index].text,
                steps,
                [count_of(index, steps[:count]) for count in range(len(steps) + 1)],
                follow_ups,
            )
            for steps in found
        ]
        for index, found in enumerate(trajectories)
    ]


def write_labels(path: Path, labelled: Sequence[Labelled]) -> None:
    """One JSON object per line."""
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in labelled))


def read_labels(path: Path) -> list[Labelled]:
    """The inverse of `write_labels`."""
    return [Labelled(**json.loads(line)) for line in path.read_text().splitlines()]
