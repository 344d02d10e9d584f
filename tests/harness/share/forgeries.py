"""Forgeries, as a forger would make them: functions that change an unpacked bundle and make all hashes fit again.

A forger has the code and the models. So after a change, whatever can be computed again is, manifests match the files,
and keys match what the plan says that they are made of, unless the forgery itself is about that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logit

from prmcal.db.metrics import Tier
from prmcal.db.run_folder import PLAN_FILE
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from tests.harness.share.opened_bundle import TEST, Opened, with_parameters

__all__ = ["FORGERIES", "Forgery"]

CALIBRATION = "calibration"
_BARE = 0


@dataclass(frozen=True)
class Forgery:
    """A forgery and what finds it.

    Attributes
    ----------
    name : str
        What the forger did.
    forge : callable
        Changes a folder.
    tier : {"consistent", "graded again", "scored again", "reproduced"}
        The first tier that finds it.
    check : str
        The check that does.
    """

    name: str
    forge: Callable[[Path], None]
    tier: Tier
    check: str


def better_metrics(folder: Path) -> None:
    def halve(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{name: table[name] / 2 for name in ("value", "low", "high")})

    Opened(folder).change("calibration_metrics", "results", halve)


def lost_inputs(folder: Path) -> None:
    better_metrics(folder)
    Opened(folder).lose("calibrated")


def _knowing_rewards(opened: Opened) -> None:
    """Give all prefixes of right trajectories high rewards, and those of wrong ones low rewards."""
    drawn = pd.concat([opened.read(each.ref, "trajectories") for each in opened.shards("rollout")])
    correct = drawn.set_index(["question_id", "trajectory"])["correct"]

    def know(table: pd.DataFrame) -> pd.DataFrame:
        right = correct.loc[list(zip(table["question_id"], table["trajectory"], strict=True))].to_numpy()
        reward = np.where(right, 0.9, 0.1)
        return table.assign(reward=reward, logit=logit(reward).astype(np.float32))

    opened.change("score", "rewards", know)


def altered_rewards_and_results(folder: Path) -> None:
    opened = Opened(folder)
    _knowing_rewards(opened)
    opened.recompute()


def _graded_right(
    table: pd.DataFrame, chosen: np.ndarray, answers: Mapping[str, str] | None = None
) -> pd.DataFrame:
    changed = table.copy()
    changed.loc[chosen, "verdict"] = "correct"
    changed.loc[chosen, "correct"] = True
    if answers is not None:
        changed.loc[chosen, "answer"] = changed.loc[chosen, "question_id"].map(answers)
    return changed


def flipped_grades_and_answers(folder: Path) -> None:
    opened = Opened(folder)
    (planned,) = (each for each in opened.plan.datasets if each.split == TEST)
    answers = {each.id: each.answer for each in planned.questions}
    # The last trajectory has no success counts that would tell.
    opened.change(
        "rollout",
        "trajectories",
        lambda table: _graded_right(
            table,
            (table["verdict"] == "incorrect").to_numpy() & (table["trajectory"] == table["trajectory"].max()),
            answers,
        ),
    )
    opened.recompute()


def swapped_questions(folder: Path) -> None:
    opened = Opened(folder)
    plan = json.loads((folder / PLAN_FILE).read_text())
    for each in plan["datasets"]:
        if each["split"] == TEST:
            for row in each["questions"]:
                row[1], row[2] = "What is 1 + 1?", "2"
    (folder / PLAN_FILE).write_text(json.dumps(plan))
    del opened


def missing_rows(folder: Path) -> None:
    opened = Opened(folder)
    first = opened.read(opened.shards("success")[0].ref, "successes")["question_id"].iloc[0]
    opened.change("success", "successes", lambda table: table[table["question_id"] != first])


def leaked_questions(folder: Path) -> None:
    """Give test questions the ids of calibration questions, as if calibrators had been fitted to the latter."""
    opened = Opened(folder)
    planned = {each.split: each.questions for each in opened.plan.datasets}
    asked = dict(enumerate(planned[CALIBRATION]))
    for place, stolen in enumerate(planned[TEST][:4]):
        asked[place] = replace(stolen, id=asked[place].id)
    opened.ask(CALIBRATION, asked)
    opened.recompute()


def fitted_to_test(folder: Path) -> None:
    """Fit the calibrators that read scores to the test questions, and compute everything after it again."""
    opened = Opened(folder)
    context = opened.context()
    rollouts = {"score": "score", "success": "success"}
    for shard in opened.shards("fit", CALIBRATION):
        if "hidden" in shard.inputs:
            continue
        inputs = {role: tuple(each.ref for each in opened.shards(kind)) for role, kind in rollouts.items()}
        data = replace(shard.parameters.data, split=TEST)
        assert isinstance(shard.parameters, FitParameters)
        output = compute(
            replace(shard, inputs=inputs, parameters=replace(shard.parameters, data=data)), context
        )
        assert output.save is not None
        opened.store.write(shard.ref, output.save, {"seconds": 0.1})
    opened.recompute()


def inflated_later_counts(folder: Path) -> None:
    """Leave the bare questions as they are."""
    opened = Opened(folder)

    def inflate(table: pd.DataFrame) -> pd.DataFrame:
        kept = table["terminal"] | (table["step"] == _BARE)
        return table.assign(successes=table["successes"].where(kept, table["follow_ups"]))

    opened.change("success", "successes", inflate)
    opened.recompute()


def changed_arguments(folder: Path) -> None:
    """Say that metrics were computed in another number of bins, and keep the keys."""
    _edit_plan(folder, "identity")


def changed_parameters(folder: Path) -> None:
    """Say the same in the parameters only, which is what functions read."""
    _edit_plan(folder, "parameters")


def _edit_plan(folder: Path, part: str) -> None:
    opened = Opened(folder)

    def alter(shard: Shard[Parameters]) -> Shard[Parameters]:
        if shard.ref.kind != "rollout":
            return shard
        if part == "parameters":
            sampling = replace(shard.parameters.sampling, temperature=0.5)  # type: ignore[attr-defined]
            return replace(shard, parameters=with_parameters(shard.parameters, sampling=sampling))
        sampling = {**shard.identity["sampling"], "temperature": 0.5}
        return replace(shard, identity={**shard.identity, "sampling": sampling})

    jobs: dict[str, Job[Parameters]] = {}
    for job in opened.plan.jobs:
        sources = tuple(jobs[source.key] for source in job.inputs)
        jobs[job.key] = Job(job.key, job.labels, tuple(map(alter, job.shards)), sources)
    cells = tuple(replace(cell, job=jobs[cell.job.key]) for cell in opened.plan.cells)
    opened.save(replace(opened.plan, jobs=tuple(jobs.values()), cells=cells))


FORGERIES = (
    Forgery("better metric values", better_metrics, "consistent", "results computed again"),
    Forgery(
        "better metric values, whose inputs 'failed'", lost_inputs, "consistent", "results computed again"
    ),
    Forgery(
        "altered rewards, with all results computed from them",
        altered_rewards_and_results,
        "scored again",
        "scores",
    ),
    Forgery("grades and answers flipped together", flipped_grades_and_answers, "graded again", "grades"),
    Forgery(
        "other question texts under the same ids",
        swapped_questions,
        "consistent",
        "questions of the data sets",
    ),
    Forgery("rows of a hard question left out", missing_rows, "consistent", "rows and values"),
    Forgery(
        "test questions among the calibration questions",
        leaked_questions,
        "consistent",
        "test and calibration questions",
    ),
    Forgery("calibrators fitted to test labels", fitted_to_test, "scored again", "fits repeated"),
    Forgery(
        "success counts inflated after the first step only",
        inflated_later_counts,
        "reproduced",
        "own samples",
    ),
    Forgery("other sampling in the plan, keys kept", changed_arguments, "consistent", "keys"),
    Forgery(
        "other sampling in the parameters only", changed_parameters, "consistent", "what keys are made of"
    ),
)
