"""Answers: equal final answers to a question have equal grades, whichever LLM or search gave them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import ImportedParameters, Parameters, RolloutParameters, SearchParameters
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.verifying.consistent.questions import Place
from prmcal.harness.verifying.context import TEXT
from prmcal.harness.verifying.findings import Flaw, concluded
from prmcal.harness.verifying.record import Check
from prmcal.harness.verifying.subject import Subject

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_answers"]

_TABLES: dict[type[Parameters], str] = {
    RolloutParameters: "trajectories",
    ImportedParameters: "trajectories",
    SearchParameters: "searches",
}
_COLUMNS = ["question_id", "answer", "correct", "verdict"]


def check_answers(subject: Subject) -> Check:
    """Check that no answer to a question is graded as correct in one place and as incorrect in another.

    A data set from a plugin may grade more than the answer, so it is left out.
    """
    import pyarrow as pa

    own = {each.name for each in subject.plan.plugins["dataset"] if "source" in each.identity}
    shards: dict[Place, list[Shard[Parameters]]] = defaultdict(list)
    for shard in subject.plan.shards():
        data = shard.parameters.data
        if (
            type(shard.parameters) in _TABLES
            and shard.ref in subject.manifests
            and data.dataset.name not in own
        ):
            shards[data.dataset.name, data.split].append(shard)
    rows = 0
    flaws: list[Flaw] = []
    for place, found in shards.items():
        tables = [
            subject.store.read(each.ref.kind, each.ref.key, _TABLES[type(each.parameters)], leave_out=TEXT)
            for each in found
        ]
        # One table of pandas is made much faster than many.
        joined = pa.concat_tables([each.select(_COLUMNS) for each in tables], promote_options="default")
        table = joined.to_pandas(use_threads=False)
        table["shard"] = np.repeat(np.arange(len(tables)), [len(each) for each in tables])
        table = table[table["verdict"].isin(["correct", "incorrect"])]
        rows += len(table)
        flaws += _contradictions(table, place, [each.ref for each in found])
    passed = f"Equal answers to a question have equal grades in {rows:,} trajectories and searches."
    return concluded(subject, "consistent", "one grade for an answer", rows, flaws, passed)


def _contradictions(table: pd.DataFrame, place: Place, refs: list[ArtifactRef]) -> Iterator[Flaw]:
    both = table.groupby(["question_id", "answer"])["correct"].transform("nunique") > 1
    if both.any():
        first = table[both].iloc[0]
        yield Flaw(
            f"{'/'.join(place)}: the answer {first['answer']!r} to the question '{first['question_id']}' is graded as "
            f"correct and as incorrect, as are answers to {table[both]['question_id'].nunique() - 1} other questions",
            tuple(refs[number] for number in sorted(table[both]["shard"].unique())),
        )
