"""Rows: each artifact of a model has those that its parameters promise, and its values are possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
from scipy.special import expit

from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    Parameters,
    RolloutParameters,
    ScoreParameters,
    SearchParameters,
    SuccessParameters,
)
from prmcal.harness.jobs.rollout import chosen_prefixes
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verify.subject import Flaw, Subject
from prmcal.registry.grading.symbolic import Verdict
from prmcal.registry.messages import excerpt, message_of

if TYPE_CHECKING:
    import pandas as pd


_REWARD_TOLERANCE = 1e-3
"""A reward is the logistic function of the logit. PRMs of others may compute it in half precision."""
_COUNTS = ("steps", "tokens", "prompt_tokens", "finished", "rounds", "generations", "generated_tokens")

_TABLES = ("trajectories", "searches", "successes", "rewards", "calibrated_rewards")


def check_rows(subject: Subject) -> Check:
    """Check the artifacts that models made. Those of measurements are computed again instead."""
    count, flaws = 0, []
    for shard in subject.plan.shards():
        if shard.ref not in subject.manifests:
            continue
        try:
            rows, problems = _checked(subject, shard)
        except Exception as error:  # of tables with other columns than a run writes
            rows, problems = 0, [f"its tables are not those of a run ({excerpt(message_of(error), 150)})"]
        count += rows
        flaws += [Flaw(f"{subject.plan.job_of(shard.ref)}: {each}", (shard.ref,)) for each in problems]
    passed = f"{count:,} rows are those that their jobs promise, with possible values."
    return subject.checked("consistent", "rows and values", count, flaws, passed)


def _checked(subject: Subject, shard: Shard[Parameters]) -> tuple[int, list[str]]:
    """Return the number of rows of an artifact, and what is wrong with them, in sentences without full stops."""
    folder = subject.store.folder(shard.ref.kind, shard.ref.key)
    problems, count = list[str](), 0
    for name in (each for each in _TABLES if (folder / f"{each}.parquet").exists()):
        rows = _read(subject, [shard.ref], name)
        count += len(rows)
        problems += [f"it has {wrong.sum()} {what}" for what, wrong in _impossible(name, rows) if wrong.any()]
        problems += _unlike(rows, subject, shard)
    return count, problems


def _impossible(name: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series[bool]]]:
    """Yield what a table must not have, and which rows of it are so."""
    if name in ("trajectories", "searches"):
        verdict, counts = rows["verdict"], rows[[each for each in _COUNTS if each in rows]]
        yield "verdicts that no grader gives", ~verdict.isin(get_args(Verdict))
        yield "verdicts that contradict 'correct'", rows["correct"] != (verdict == "correct")
        yield "verdicts that contradict the answer", rows["answer"].isna() != (verdict == "unparsed")
        yield "negative counts", (counts < 0).any(axis=1)
        yield "rows twice", rows.duplicated([each for each in PREFIX if each in rows])
    if name == "searches":
        yield "searches that are right without a finished beam", (rows["finished"] == 0) & rows["any_correct"]
    if name == "successes":
        k, n = rows["successes"], rows["follow_ups"]
        mixed = rows["terminal"] & (k != 0) & (k != n)
        yield "success counts that are not possible", (k < 0) | (k > n) | mixed
    if name == "rewards":
        rows = rows[~rows["over_long"]]
        apart = (rows["reward"] - expit(rows["logit"].astype(float))).abs()
        yield "rewards that are not those of their logits", ~(apart <= _REWARD_TOLERANCE)
    if "reward" in rows:
        yield "rewards outside [0, 1]", ~rows["reward"].between(0, 1)


def _unlike(rows: pd.DataFrame, subject: Subject, shard: Shard[Parameters]) -> Iterator[str]:
    """Yield how the rows of a table differ from those that its parameters promise."""
    given = shard.parameters
    asked, place = given.data.questions, (given.data.dataset.name, given.data.split)
    (planned,) = (each for each in subject.plan.datasets if (each.name, each.split) == place)
    ids = [each.id for each in planned.questions[asked.start : asked.stop]]
    match given:
        case RolloutParameters():
            m = len(given.trajectories)
            wanted = [np.repeat(ids, m), np.tile(list(given.trajectories), len(ids))]
        case SearchParameters():
            wanted = [np.array(ids)]
        case SuccessParameters() | ScoreParameters():
            drawn = _read(subject, shard.inputs["rollout"], "trajectories")
            most = given.most_prefixes if isinstance(given, SuccessParameters) else None
            if isinstance(given, SuccessParameters):
                drawn = drawn[drawn["trajectory"] < given.trajectories.stop]
                other = int((rows["follow_ups"] != len(given.follow_ups)).sum())
                if other:
                    yield f"it has {other} prefixes with another number of follow-ups"
            steps = [chosen_prefixes(each, most) for each in drawn["steps"]]
            sizes = [len(each) for each in steps]
            wanted = [np.repeat(drawn[name].to_numpy(), sizes) for name in PREFIX[:2]]
            wanted.append(np.concatenate([[], *steps]).astype(np.int64))
        case CalibratedParameters():
            scored = _read(subject, shard.inputs["score"], "rewards").sort_values(PREFIX)
            scored = scored[(scored["trajectory"] < given.trajectories.stop) & ~scored["over_long"]]
            levels = rows["level"].unique()
            if not len(levels) or not set(given.levels) <= set(levels):
                yield "it lacks a level"
            wanted = [np.tile(scored[name].to_numpy(), len(levels)) for name in PREFIX]
        case _:
            if not rows["question_id"].isin(ids).all():
                yield "it has rows of other questions"
            return
    same = len(rows) == len(wanted[0])
    if not same or not all(
        np.array_equal(rows[name], each) for name, each in zip(PREFIX, wanted, strict=False)
    ):
        yield f"it has {len(rows)} rows, and the {len(wanted[0])} that belong there are others"


def _read(subject: Subject, refs: Sequence[ArtifactRef], name: str) -> pd.DataFrame:
    import pandas as pd

    tables = [subject.store.read(ref.kind, ref.key, name, leave_out="text").to_pandas() for ref in refs]
    return pd.concat(tables, ignore_index=True)
