"""Graded again: texts match their hashes, and the grader of this version finds the same answers and grades."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, RolloutParameters, SearchParameters
from prmcal.harness.share.tables import HASHES, text_hashes
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.harness.verifying.findings import Flaw, concluded, not_made, place_of
from prmcal.harness.verifying.repeated.models import Texts
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.contracts.data import Question
from prmcal.registry.grading.symbolic import Verdict
from prmcal.registry.messages import excerpt
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_grades", "graded_shards"]

_TABLES = {RolloutParameters: "trajectories", SearchParameters: "searches"}
_NOT_GRADED = (
    "The success counts k cannot be graded again, since the texts of follow-ups are not kept. Nor can the beams of a "
    "search that were not chosen."
)


@dataclass
class _Found:
    rows: int
    hashed: list[Flaw]
    graded: list[Flaw]
    unknown: dict[ArtifactRef, str]


def graded_shards(subject: Subject) -> list[Shard[Parameters]]:
    """Return the shards whose texts are graded."""
    return [
        shard
        for shard in subject.plan.shards()
        if type(shard.parameters) in _TABLES and shard.ref in subject.manifests
    ]


def check_grades(subject: Subject, texts: Texts) -> Iterator[Check]:
    """Compare texts with their hashes, and grade them again."""
    found = _Found(0, [], [], {})
    context = Context(subject.store)
    versions = {(each.name, each.split): each.grader_version for each in subject.plan.datasets}
    for shard in graded_shards(subject):
        try:
            _grade(subject, shard, texts, context, versions, found)
        except PrmcalError as error:
            found.unknown[shard.ref] = excerpt(str(error), 200).rstrip(".")
    rows = found.rows
    yield concluded(
        subject, "graded again", "texts", rows, found.hashed, f"{counted(rows, 'text')} match their hashes."
    )
    passed = f"{counted(rows, 'text')} have these steps, answers and grades. {_NOT_GRADED}"
    yield concluded(subject, "graded again", "grades", rows, found.graded, passed)
    if found.unknown:
        first, why = next(iter(found.unknown.items()))
        cells = subject.cells_behind(found.unknown)
        told = f"{counted(len(found.unknown), 'artifact')} could not be graded. {place_of(subject, first)}: {why}."
        yield not_made("graded again", "texts that are not here", told, passed=False, cells=cells)


def _grade(
    subject: Subject,
    shard: Shard[Parameters],
    texts: Texts,
    context: Context,
    versions: dict[tuple[str, str], str],
    found: _Found,
) -> None:
    data = shard.parameters.data
    place = data.dataset.name, data.split
    name = _TABLES[type(shard.parameters)]
    if place not in texts.questions:
        found.unknown[shard.ref] = f"the answers are not known: {texts.unknown[place]}".rstrip(".")
        return
    here = context.dataset(data.dataset).grader_version
    if here != versions[place]:
        found.unknown[shard.ref] = f"it was graded by version {versions[place]}, and this prmcal has {here}"
        return
    stored = subject.store.read(shard.ref.kind, shard.ref.key, name).to_pandas()
    keys = [each for each in ("question_id", "trajectory") if each in stored]
    table = stored.drop(columns="text", errors="ignore").merge(texts.of(shard.ref, name), on=keys, how="left")
    found.rows += len(table)
    if table["text"].isna().any():
        found.hashed.append(_flaw(subject, shard, table["text"].isna().sum(), "have no text"))
        table = table[table["text"].notna()]
    if name == "trajectories":
        wrong = _wrong_hashes(subject.store, shard.ref, table)
        if wrong:
            found.hashed.append(_flaw(subject, shard, wrong, "have another text than their hash says"))
    questions = {each.id: each for each in texts.questions[place]}
    verdicts = [_verdict(context, shard, questions[row.question_id], row.text) for row in table.itertuples()]
    steps = sum(
        len(split_steps(text)) != count for text, count in zip(table["text"], table["steps"], strict=True)
    )
    if steps:
        found.graded.append(_flaw(subject, shard, steps, "have another number of steps"))
    wrong = sum(
        not _same(row, verdict, answer)
        for row, (verdict, answer) in zip(table.itertuples(), verdicts, strict=True)
    )
    if wrong:
        found.graded.append(_flaw(subject, shard, wrong, "have another answer or grade"))


def _verdict(
    context: Context, shard: Shard[Parameters], question: Question, text: str
) -> tuple[Verdict, str | None]:
    return context.grade(shard.parameters.data.dataset, question, text)


def _same(row: object, verdict: Verdict, answer: str | None) -> bool:
    stored = getattr(row, "answer", None)
    known = stored if isinstance(stored, str) else None
    late = "timed out" in (verdict, getattr(row, "verdict", ""))  # A busy machine needs longer.
    return known == answer and (late or getattr(row, "verdict", "") == verdict)


def _wrong_hashes(store: Store, ref: ArtifactRef, table: pd.DataFrame) -> int:
    """Return how many texts do not have the hash of the bundle. The folder of a run has no hashes."""
    import pyarrow as pa

    try:
        stored = store.read(ref.kind, ref.key, HASHES).to_pandas()
    except PrmcalError:
        return 0
    computed = text_hashes(pa.Table.from_pandas(table, preserve_index=False)).to_pandas()
    both = computed.merge(stored, on=["question_id", "trajectory"], how="left")
    return int((both["text_hash_x"] != both["text_hash_y"]).sum())


def _flaw(subject: Subject, shard: Shard[Parameters], count: int, what: str) -> Flaw:
    return Flaw(f"{place_of(subject, shard.ref)}: {counted(int(count), 'text')} {what}", (shard.ref,))
