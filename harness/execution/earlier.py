"""Texts of an earlier form of the grid in the folder of a run. No shard of its plan computes them."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from prmcal.db.run_folder import finished_artifacts
from prmcal.errors import DataError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.jobs.rollout import TEXT_TABLES
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Store


def earlier_texts(
    store: Store, plan: Plan, unfinished: Iterable[Shard[Parameters]]
) -> dict[ArtifactRef, tuple[ArtifactRef, ...]]:
    """Return the artifacts that have texts of the questions of unfinished shards, by these shards.

    The artifacts are complete and not in the plan. A shard only takes over texts of its own requests.
    """
    waiting = [shard for shard in unfinished if shard.ref.kind in TEXT_TABLES]
    if not waiting:
        return {}
    holders = _holders(store, {shard.ref for shard in plan.shards()})
    questions = {(data.name, data.split): data.questions for data in plan.datasets}
    earlier = {}
    for shard in waiting if holders else ():
        data = shard.parameters.data
        shard_questions = questions[data.dataset.name, data.split][data.questions.start : data.questions.stop]
        refs = dict.fromkeys(
            ref for question in shard_questions for ref in holders.get((shard.ref.kind, question.id), ())
        )
        if refs:
            earlier[shard.ref] = tuple(refs)
    return earlier


def _holders(store: Store, planned: set[ArtifactRef]) -> dict[tuple[str, str], list[ArtifactRef]]:
    """Return the artifacts outside the plan that have texts of a question, by kind of job and the question's id."""
    holders: dict[tuple[str, str], list[ArtifactRef]] = defaultdict(list)
    for kind, table in TEXT_TABLES.items():
        refs = {ArtifactRef(kind, key) for key in sorted(finished_artifacts(store.directory, kind))}
        for ref in store.manifests(refs - planned):
            with suppress(DataError):  # An artifact of another version has other tables.
                for question in store.read(ref, table)["question_id"].unique().to_pylist():
                    holders[kind, question].append(ref)
    return holders
