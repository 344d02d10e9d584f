"""Texts in the folder of a run that no shard of its plan computes, since an earlier form of the grid sampled them.

Texts of a version with other keys are converted by :func:`convert_texts`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from prmcal.db import run_folder
from prmcal.db.run_folder import finished_artifacts
from prmcal.errors import DataError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, RolloutParameters
from prmcal.harness.jobs.rollout import REQUEST, TEXT_TABLES, request_key
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.resolved import build_plugin
from prmcal.harness.planning.settings import PluginSpec
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.contracts.data import GIVEN, Prefix
from prmcal.registry.plugins import llms


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


def has_old_texts(directory: Path) -> bool:
    """Return whether a version with other keys made the plan of a folder, whose samples have no requests yet."""
    return "rollout" in _old_plan(directory)


def convert_texts(directory: Path) -> int:
    """Write the trajectories that a version with other keys sampled so that a run takes them over.

    Return the number of shards. The plan and the databases of that version are removed. Raises a PrmcalError if a
    plugin of the grid is not available.
    """
    store, seed = Store(directory), RunFolder(directory).record().grid["seed"]
    old = _old_plan(directory)
    texts = {(data["name"], data["split"]): {row[0]: row[1] for row in data["questions"]} for data in old["datasets"]}
    count = 0
    for job in old["rollout"]:
        job_parameters = job["parameters"]
        planned = build_plugin(llms, PluginSpec(**job_parameters["llm"]))
        names = {name: job_parameters.get(name) for name in ("sampling", "prefer_answered")}
        identity = {**names, "llm": planned.identity, "seed": seed}
        questions = texts[job["labels"]["dataset"], job["labels"]["split"]]
        for key, (*_, first, stop) in zip(job["shards"], job["ranges"], strict=True):
            ref = ArtifactRef("rollout", key)
            with suppress(DataError):
                table = store.table([ref], "trajectories")
                requests = {
                    name: request_key("rollout", identity, range(first, stop), Prefix(text))
                    for name, text in questions.items()
                }
                table[REQUEST] = table["question_id"].map(requests)
                table["correct"] = table["correct"].astype("boolean").where(table["found_by"] == GIVEN)
                table = table.drop(columns=["answer", "found_by", "verdict"])
                store.write(ref, partial(_write, table), {"seconds": 0.0})
                count += 1
    for path in (run_folder.database_path(directory), run_folder.published_path(directory)):
        path.unlink(missing_ok=True)
    (directory / run_folder.PLAN_FILE).unlink()
    return count


def _write(table: pd.DataFrame, folder: Path) -> None:
    table.to_parquet(folder / "texts.parquet", index=False)


def _old_plan(directory: Path) -> dict[str, Any]:
    """Return the data sets and the rollouts of a plan of a version with other keys; nothing if there is none."""
    try:
        plan = json.loads((directory / run_folder.PLAN_FILE).read_text(encoding="utf-8"))
        rollouts = [job for job in plan["jobs"] if job["kind"] == "rollout"]
        old = bool(rollouts) and rollouts[0]["version"] < RolloutParameters.version
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {"datasets": plan["datasets"], "rollout": rollouts} if old else {}
