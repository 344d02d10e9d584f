"""Rows: each artifact of a model has those that its parameters promise, and its values are possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import PrmcalError
from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    ImportedParameters,
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
from prmcal.registry.contracts.data import Question
from prmcal.registry.grading.symbolic import Verdict
from prmcal.registry.messages import excerpt, message_of

if TYPE_CHECKING:
    import pandas as pd


_REWARD_TOLERANCE = 1e-3
"""A reward is the logistic function of the logit. PRMs of others may compute it in half precision."""
_TEXT = "text"
_Rows = Sequence[NDArray[Any]]


def check_rows(subject: Subject) -> Check:
    """Check the artifacts that models made. Those of measurements are computed again instead."""
    rows = 0
    flaws = []
    questions = {(each.name, each.split): each.questions for each in subject.plan.datasets}
    for shard in subject.plan.shards():
        if shard.ref not in subject.manifests:
            continue
        try:
            count, problems = _found(subject, shard, questions)
        except PrmcalError as error:
            count, problems = 0, [excerpt(str(error), 200).rstrip(".")]
        except Exception as error:  # of tables with other columns than a run writes
            count, problems = 0, [f"its tables are not those of a run ({excerpt(message_of(error), 150)})"]
        rows += count
        flaws += [Flaw(f"{subject.plan.job_of(shard.ref)}: {each}", (shard.ref,)) for each in problems]
    passed = f"{rows:,} rows are those that their jobs promise, with possible values."
    return subject.checked("consistent", "rows and values", rows, flaws, passed)


def _found(
    subject: Subject, shard: Shard[Parameters], known: dict[tuple[str, str], tuple[Question, ...]]
) -> tuple[int, list[str]]:
    """Return the number of rows of an artifact, and what is wrong with them, in sentences without full stops."""

    def tables(refs: Sequence[ArtifactRef], name: str) -> pd.DataFrame:
        import pandas as pd

        found = [subject.store.read(ref.kind, ref.key, name, leave_out=_TEXT).to_pandas() for ref in refs]
        return found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)

    given = shard.parameters
    asked = given.data.questions
    ids = [each.id for each in known[given.data.dataset.name, given.data.split][asked.start : asked.stop]]
    one = (shard.ref,)
    match given:
        case RolloutParameters():
            table, m = tables(one, "trajectories"), len(given.trajectories)
            wanted: _Rows = [np.repeat(ids, m), np.tile(list(given.trajectories), len(ids))]
            return len(table), [*_unlike(table, PREFIX[:2], wanted), *_graded(table)]
        case ImportedParameters():
            table = tables(one, "trajectories")
            strange = ~table["question_id"].isin(ids) | (table["trajectory"] >= given.trajectories.stop)
            strange |= table.duplicated(PREFIX[:2])
            counts = _counted(tables(one, "successes"))
            return len(table), [
                *_if(strange, "trajectories that do not belong there"),
                *_graded(table),
                *counts,
            ]
        case SearchParameters():
            table = tables(one, "searches")
            lucky = (table["finished"] == 0) & table["any_correct"]
            problems = [*_graded(table), *_if(lucky, "searches that are right without a finished beam")]
            return len(table), [*_unlike(table, PREFIX[:1], [np.array(ids)]), *problems]
        case SuccessParameters():
            table, drawn = tables(one, "successes"), tables(shard.inputs["rollout"], "trajectories")
            drawn = drawn[drawn["trajectory"] < given.trajectories.stop]
            steps = [chosen_prefixes(each, given.most_prefixes) for each in drawn["steps"]]
            other = table["follow_ups"] != len(given.follow_ups)
            problems = [*_counted(table), *_if(other, "prefixes with another number of follow-ups")]
            return len(table), [*_unlike(table, PREFIX, _prefixes(drawn, steps)), *problems]
        case ScoreParameters():
            table, drawn = tables(one, "rewards"), tables(shard.inputs["rollout"], "trajectories")
            wanted = _prefixes(drawn, [list(range(each + 1)) for each in drawn["steps"]])
            read = table[~table["over_long"]]
            apart = ~((read["reward"] - expit(read["logit"].astype(float))).abs() <= _REWARD_TOLERANCE)
            problems = [*_outside(read["reward"]), *_if(apart, "rewards that are not those of their logits")]
            return len(table), [*_unlike(table, PREFIX, wanted), *problems]
        case CalibratedParameters():
            table, scored = tables(one, "calibrated_rewards"), tables(shard.inputs["score"], "rewards")
            scored = scored[(scored["trajectory"] < given.trajectories.stop) & ~scored["over_long"]]
            levels, prefixes = np.unique(table["level"]), scored.sort_values(PREFIX)
            wanted = [np.tile(prefixes[name].to_numpy(), len(levels)) for name in PREFIX]
            lost = set(given.levels) - set(levels)
            problems = [
                *_outside(table["reward"]),
                *(["it lacks a level"] if lost or not len(levels) else []),
            ]
            return len(table), [*_unlike(table, PREFIX, wanted), *problems]
    return 0, []


def _prefixes(drawn: pd.DataFrame, steps: Sequence[Sequence[int]]) -> _Rows:
    sizes = [len(each) for each in steps]
    ids = np.repeat(drawn["question_id"].to_numpy(str), sizes)
    numbers = np.repeat(drawn["trajectory"].to_numpy(), sizes)
    return ids, numbers, np.concatenate([[], *steps]).astype(np.int64)


def _unlike(table: pd.DataFrame, names: Sequence[str], wanted: _Rows) -> Iterator[str]:
    """Yield how the rows of a table differ from the wanted ones, by the columns that identify them."""
    same = len(table) == len(wanted[0])
    if not same or not all(
        np.array_equal(table[name], each) for name, each in zip(names, wanted, strict=True)
    ):
        yield f"it has {len(table)} rows, and the {len(wanted[0])} that belong there are others"


def _graded(table: pd.DataFrame) -> Iterator[str]:
    verdict = table["verdict"]
    yield from _if(~verdict.isin(get_args(Verdict)), "verdicts that no grader gives")
    yield from _if(table["correct"] != (verdict == "correct"), "verdicts that contradict 'correct'")
    yield from _if(table["answer"].isna() != (verdict == "unparsed"), "verdicts that contradict the answer")
    names = ("steps", "tokens", "prompt_tokens", "finished", "rounds", "generations", "generated_tokens")
    yield from _if((table[[each for each in names if each in table]] < 0).any(axis=1), "negative counts")


def _counted(table: pd.DataFrame) -> Iterator[str]:
    k, n = table["successes"], table["follow_ups"]
    mixed = table["terminal"] & (k != 0) & (k != n)
    yield from _if((k < 0) | (k > n) | mixed, "success counts that are not possible")


def _outside(rewards: pd.Series) -> Iterator[str]:
    yield from _if(~rewards.between(0, 1), "rewards outside [0, 1]")


def _if(wrong: pd.Series, what: str) -> Iterator[str]:
    if wrong.any():
        yield f"it has {int(wrong.sum())} {what}"
