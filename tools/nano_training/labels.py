"""Monte Carlo labels: how often the strong policy succeeds from a prefix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.nano.problems import Problem
from prmcal.steps import split_steps

SAMPLING = Sampling(temperature=1.0, max_tokens=256)
"""Temperature 1 and top_p 1 sample from the unmodified distribution of a policy."""
Steps = tuple[str, ...]


@dataclass(frozen=True)
class LabelledSteps:
    """A trajectory, with the number of successful follow-ups of each of its prefixes.

    Attributes
    ----------
    question : str
        The question's text.
    steps : list of str
        The trajectory.
    successes : list of int
        The successes after 0, 1, ..., T steps, out of `follow_ups`.
    follow_ups : int
        The number of follow-ups per prefix.
    """

    question: str
    steps: list[str]
    successes: list[int]
    follow_ups: int


def sample_trajectories(llm: LLM, problems: Sequence[Problem], count: int, seed: int) -> list[list[Steps]]:
    """Sample `count` trajectories of each problem."""
    prefixes = [Prefix(problem.text) for problem in problems]
    return [
        [split_steps(completion.text) for completion in completions]
        for completions in llm.generate(prefixes, count, SAMPLING, seed)
    ]


def label_prefixes(
    llm: LLM, problems: Sequence[Problem], trajectories: Sequence[Sequence[Steps]], follow_ups: int, seed: int
) -> list[LabelledSteps]:
    """Count the successful follow-ups from each prefix of each trajectory (problems x count).

    Equal prefixes of a question share their follow-ups. A prefix that already contains a boxed answer needs none.
    """
    prefixes = dict.fromkeys(
        (index, steps[:count])
        for index, of_problem in enumerate(trajectories)
        for steps in of_problem
        for count in range(len(steps) + 1)
    )
    open_ends = [key for key in prefixes if "\\boxed" not in "".join(key[1])]
    completions = llm.generate(
        [Prefix(problems[index].text, steps) for index, steps in open_ends], follow_ups, SAMPLING, seed
    )
    successes = {
        key: sum(graded(completion.text, problems[key[0]]) for completion in of_problem)
        for key, of_problem in zip(open_ends, completions, strict=True)
    }

    def count_of(index: int, steps: Steps) -> int:
        count = successes.get((index, steps))
        return follow_ups * graded("".join(steps), problems[index]) if count is None else count

    return [
        LabelledSteps(
            problems[index].text,
            list(steps),
            [count_of(index, steps[:count]) for count in range(len(steps) + 1)],
            follow_ups,
        )
        for index, of_problem in enumerate(trajectories)
        for steps in of_problem
    ]


def graded(text: str, problem: Problem) -> bool:
    """Return whether a text contains the right answer in a box."""
    return f"\\boxed{{{problem.answer}}}" in text


def write_labels(path: Path, labelled: Sequence[LabelledSteps]) -> None:
    """Write one JSON object per line."""
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in labelled))


def read_labels(path: Path) -> list[LabelledSteps]:
    """Read what `write_labels` wrote."""
    return [LabelledSteps(**json.loads(line)) for line in path.read_text().splitlines()]


def labels_by_length(labels: Sequence[LabelledSteps]) -> dict[int, list[list[LabelledSteps]]]:
    """Group trajectories by question, and questions by their number of instructions."""
    questions: dict[str, list[LabelledSteps]] = {}
    for row in labels:
        questions.setdefault(row.question, []).append(row)
    by_length: dict[int, list[list[LabelledSteps]]] = {}
    for text, rows in questions.items():
        by_length.setdefault(text.count(")"), []).append(rows)
    return by_length
