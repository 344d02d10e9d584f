"""Imported: read trajectories and success counts from published data, in place of a rollout and its follow-ups."""

from __future__ import annotations

import pandas as pd

from prmcal.errors import DataError, PluginFailedError
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import ImportedParameters
from prmcal.harness.jobs.rollout import COLUMNS, typed
from prmcal.harness.jobs.success import counted
from prmcal.registry.contracts.dataset import FollowedUpDataset
from prmcal.registry.grading import extract_answer
from prmcal.steps import join_steps

__all__ = ["compute"]


def compute(shard: Shard[ImportedParameters], context: Context) -> Output:
    """Return the tables of a rollout and of its success rates. Prefixes without a rate are not in the second one.

    The number of generated tokens is not known; it is stored as 0.
    """
    parameters = shard.parameters
    dataset, llm = context.dataset(parameters.data.dataset), parameters.llm.name
    if not isinstance(dataset, FollowedUpDataset):
        raise PluginFailedError(f"The data set '{parameters.data.dataset.name}' has no success rates.")
    published = dataset.trajectories(llm, parameters.follow_ups.stop)
    drawn, counts = [], []
    for question in context.questions(parameters.data):
        if question.text not in published:
            raise DataError(
                f"The published success rates of '{llm}' do not have the question {question.text[:60]!r}, which those "
                "of another LLM have. Give each LLM of the grid the same questions."
            )
        kept = published[question.text][: parameters.trajectories.stop]
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
                    "end",
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
