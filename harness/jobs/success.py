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

__all__ = ["compute", "counted"]


def compute(shard: Shard[SuccessParameters], context: Context) -> Output:
    """Return the counts for all prefixes of the measured trajectories.

    Equal prefixes of a question are followed up once and share their counts. A prefix that already contains the final
    answer needs no follow-up: either all of its follow-ups would be correct or none.
    """
    data, follow_ups = shard.parameters.data, len(shard.parameters.follow_ups)
    questions = {question.id: question for question in context.questions(data)}
    dataset = context.dataset(data.dataset)
    trajectories = context.table(shard, "rollout", "trajectories")
    trajectories = trajectories[trajectories["trajectory"] < shard.parameters.trajectories.stop]

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
        head = text_so_far(prefix)
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
    """Return the table of success counts.

    Each row has the question, the trajectory, the step, the successes, the follow-ups, and whether the prefix contains
    the final answer.
    """
    import pandas as pd

    columns = ["question_id", "trajectory", "step", "successes", "follow_ups", "terminal"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:5], "int32"))
