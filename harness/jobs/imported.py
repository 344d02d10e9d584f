"""Imported: trajectories and success counts of published data, in place of a rollout and its follow-ups."""

from __future__ import annotations

from typing import cast

import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.rollout import COLUMNS, typed
from prmcal.harness.jobs.success import counted
from prmcal.registry.contracts.data import join_steps
from prmcal.registry.contracts.dataset import FollowedUpDataset
from prmcal.registry.grading import extract_answer

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """The tables of a rollout and of its success rates; where a prefix has no rate, the PRM's score of it is unused.

    What was generated is not known, so that there are no tokens to count.
    """
    llm = shard.parameters["llm"]["name"]
    dataset = cast(FollowedUpDataset, context.dataset(shard.parameters["dataset"]))
    published = dataset.trajectories(llm, shard.parameters["follow_ups"][1])
    drawn, counts = [], []
    for question in context.questions(shard):
        if question.text not in published:
            raise DataError(
                f"The published success rates of '{llm}' lack the question {question.text[:60]!r}, which those of "
                "another LLM have. Give each LLM of the grid the same questions."
            )
        kept = published[question.text][: shard.parameters["trajectories"][1]]
        for number, each in enumerate(kept):
            text = join_steps(each.steps)
            answer = extract_answer(text)
            k, n = each.counts[len(each.steps)]
            verdict = "unparsed" if answer is None else "correct" if k == n else "incorrect"
            drawn.append(
                (
                    question.id,
                    number,
                    text,
                    len(each.steps),
                    0,
                    0,
                    "stop",
                    answer,
                    verdict,
                    verdict == "correct",
                )
            )
            counts += [
                (question.id, number, step, k, n, answer is not None and step == len(each.steps))
                for step, (k, n) in each.counts.items()
            ]
    return Output({"trajectories": typed(pd.DataFrame(drawn, columns=COLUMNS)), "successes": counted(counts)})
