"""Success: count how many of n Monte Carlo follow-ups of each prefix end in a correct answer (Definition 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import SuccessParameters
from prmcal.harness.jobs.rollout import draw
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.grading import extract_answer
from prmcal.steps import join_steps, split_steps, text_so_far

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["chosen_prefixes", "compute", "counted"]

_Group = tuple[str, tuple[str, ...], int]
"""Prefixes that share their follow-ups: the question, the steps, and the trajectory if it is the bare question."""


def compute(shard: Shard[SuccessParameters], context: Context) -> Output:
    """Return the counts for the prefixes of the measured trajectories, all of them or as many as may be followed up.

    The bare question gets follow-ups of its own for every trajectory, since IAS depends on its success rate. All other
    equal prefixes are followed up once and share their counts. A terminal prefix, which contains the final
    answer, needs no follow-up: either all of its follow-ups would be correct or none.
    """
    data, follow_ups = shard.parameters.data, len(shard.parameters.follow_ups)
    questions = {question.id: question for question in context.questions(data)}
    trajectories = context.table(shard, "rollout", "trajectories")
    trajectories = trajectories[trajectories["trajectory"] < shard.parameters.trajectories.stop]

    prefixes: list[tuple[str, int, int, _Group]] = []
    counts: dict[_Group, tuple[int, bool]] = {}
    for row in trajectories.itertuples():
        steps = split_steps(row.text)
        for step in chosen_prefixes(len(steps), shard.parameters.most_prefixes):
            group = (row.question_id, steps[:step], 0 if step else row.trajectory)
            prefixes.append((row.question_id, row.trajectory, step, group))
            text = join_steps(steps[:step])
            if extract_answer(text) is not None:
                verdict, _ = context.grade(data.dataset, questions[row.question_id], text)
                counts[group] = (follow_ups if verdict == "correct" else 0, True)

    followed = sorted({group for *_, group in prefixes} - counts.keys())
    drawn = draw(shard, context, [Prefix(questions[q].text, steps) for q, steps, _ in followed], follow_ups)
    tokens = 0
    for group, completions in zip(followed, drawn, strict=True):
        question_id, steps, _ = group
        head = text_so_far(steps)
        question = questions[question_id]
        verdicts = [context.grade(data.dataset, question, head + each.text)[0] for each in completions]
        counts[group] = (verdicts.count("correct"), False)
        tokens += sum(each.tokens for each in completions)

    rows = [
        (question, trajectory, step, counts[group][0], follow_ups, counts[group][1])
        for question, trajectory, step, group in prefixes
    ]
    table = {"successes": counted(rows)}
    return Output(table, samples=len(followed) * follow_ups, generated_tokens=tokens)


def chosen_prefixes(steps: int, most: int | None) -> list[int]:
    """Return which prefixes of a trajectory are followed up, by their numbers of steps t.

    Parameters
    ----------
    steps : int
        T, the number of steps of the trajectory.
    most : int or None
        The largest number of prefixes, at least 2: the bare question, the whole trajectory, and prefixes at equal
        distances between them, rounded to whole steps. With None, all T+1 are followed up.
    """
    if most is None or most > steps:
        return list(range(steps + 1))
    gaps = most - 1
    return [(2 * place * steps + gaps) // (2 * gaps) for place in range(most)]


def counted(rows: Sequence[tuple[str, int, int, int, int, bool]]) -> pd.DataFrame:
    """Return the table of success counts.

    Each row has the question, the trajectory, the step, the successes, the follow-ups, and whether the prefix contains
    the final answer (it is terminal).
    """
    import pandas as pd

    columns = ["question_id", "trajectory", "step", "successes", "follow_ups", "terminal"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:5], "int32"))
