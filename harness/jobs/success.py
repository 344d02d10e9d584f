"""Success: how many of n Monte Carlo follow-ups of each prefix end in a correct answer (Definition 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.rollout import draw
from prmcal.registry.contracts.data import STEP_SEPARATOR, Prefix, join_steps, split_steps
from prmcal.registry.grading import extract_answer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute", "counted"]


def compute(shard: Shard, context: Context) -> Output:
    """Counts for all prefixes of the measured trajectories.

    Equal prefixes of a question are followed up once and share their counts. A prefix that already holds the
    final answer needs no follow-up: all or none of them would be correct.
    """
    questions = {question.id: question for question in context.questions(shard)}
    dataset = context.dataset(shard.parameters["dataset"])
    start, stop = shard.parameters["follow_ups"]
    follow_ups = stop - start
    trajectories = context.table(shard, "rollout", "trajectories")
    trajectories = trajectories[trajectories["trajectory"] < shard.parameters["trajectories"][1]]

    prefixes: list[tuple[str, int, int, tuple[str, ...]]] = []
    counts: dict[tuple[str, tuple[str, ...]], tuple[int, bool]] = {}
    for row in trajectories.itertuples():
        steps = split_steps(row.text)
        for step in range(len(steps) + 1):
            prefix = steps[:step]
            prefixes.append((row.question_id, row.trajectory, step, prefix))
            text = join_steps(prefix)
            if extract_answer(text) is not None:
                verdict, _ = dataset.grade(questions[row.question_id], text)
                counts[row.question_id, prefix] = (follow_ups if verdict == "correct" else 0, True)

    open_prefixes = sorted({(question, prefix) for question, _, _, prefix in prefixes} - counts.keys())
    drawn = draw(shard, context, [Prefix(questions[q].text, p) for q, p in open_prefixes], follow_ups)
    tokens = 0
    for (question_id, prefix), completions in zip(open_prefixes, drawn, strict=True):
        head = join_steps(prefix) + STEP_SEPARATOR if prefix else ""
        verdicts = [dataset.grade(questions[question_id], head + each.text)[0] for each in completions]
        counts[question_id, prefix] = (verdicts.count("correct"), False)
        tokens += sum(each.tokens for each in completions)

    rows = [
        (question, trajectory, step, counts[question, prefix][0], follow_ups, counts[question, prefix][1])
        for question, trajectory, step, prefix in prefixes
    ]
    table = {"successes": counted(rows)}
    return Output(table, samples=len(open_prefixes) * follow_ups, generated_tokens=tokens)


def counted(rows: Sequence[tuple[str, int, int, int, int, bool]]) -> pd.DataFrame:
    """The table of question, trajectory, step, successes, follow-ups, and whether it needed none of these."""
    import pandas as pd

    columns = ["question_id", "trajectory", "step", "successes", "follow_ups", "terminal"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:5], "int32"))
