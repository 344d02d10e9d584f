"""Contents: the rows of each artifact are those that its parameters promise, and its values are possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    FitParameters,
    ImportedParameters,
    Parameters,
    RolloutParameters,
    ScoreParameters,
    SearchParameters,
    SuccessParameters,
)
from prmcal.harness.jobs.rollout import chosen_prefixes
from prmcal.harness.verifying.context import VerifyingContext
from prmcal.registry.contracts.data import FinishReason
from prmcal.registry.grading.symbolic import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_contents"]

_TRAJECTORY = ["question_id", "trajectory"]
_REWARD_TOLERANCE = 1e-3
"""A reward is the logistic function of the logit. PRMs of others may compute it in half precision."""
_SAFE = {".json", ".safetensors"}


def check_contents(shard: Shard[Parameters], context: VerifyingContext) -> tuple[int, list[str]]:
    """Return the number of rows of an artifact, and what is wrong with them, in sentences without full stops.

    Parameters
    ----------
    shard : Shard
        Of any kind. Artifacts of measurements are not looked at here, since they are computed again.
    context : VerifyingContext
    """
    check = _CHECKS.get(shard.ref.kind)
    if check is None:
        return 0, []
    messages: list[str] = []
    n = 0
    for rows, message in check(shard, context):
        n += rows
        if message:
            messages.append(message)
    return n, messages


_Found = Iterator[tuple[int, str]]
"""Numbers of rows and what is wrong with them, or nothing."""


def _rollout(shard: Shard[RolloutParameters], context: VerifyingContext) -> _Found:
    table = context.tables((shard.ref,), "trajectories")
    ids = [question.id for question in context.questions(shard.parameters.data)]
    numbers = list(shard.parameters.trajectories)
    yield len(table), _rows(table, _TRAJECTORY, [np.repeat(ids, len(numbers)), np.tile(numbers, len(ids))])
    yield 0, _of_trajectories(table)


def _imported(shard: Shard[ImportedParameters], context: VerifyingContext) -> _Found:
    table = context.tables((shard.ref,), "trajectories")
    ids = {question.id for question in context.questions(shard.parameters.data)}
    strange = ~table["question_id"].isin(ids) | (table["trajectory"] >= shard.parameters.trajectories.stop)
    yield len(table), _if(strange.any(), "it has trajectories that its parameters do not allow")
    yield 0, _if(table.duplicated(_TRAJECTORY).any(), "it has a trajectory twice")
    yield 0, _of_trajectories(table)
    yield from _counts(context.tables((shard.ref,), "successes"))


def _of_trajectories(table: pd.DataFrame) -> str:
    correct = table["correct"].to_numpy(bool)
    verdict = table["verdict"].to_numpy(str)
    if not set(verdict) <= set(get_args(Verdict)):
        return "it has a verdict that no grader gives"
    if (correct != (verdict == "correct")).any():
        return f"{(correct != (verdict == 'correct')).sum()} trajectories have a verdict that contradicts 'correct'"
    if (table["answer"].isna().to_numpy() != (verdict == "unparsed")).any():
        return "a trajectory without an answer has a verdict on it, or the other way round"
    reasons = set(table["finish_reason"]) if "finish_reason" in table else set()
    if not reasons <= set(get_args(FinishReason)):
        return "it has a finish reason that no LLM gives"
    counts = table[[each for each in ("steps", "tokens", "prompt_tokens") if each in table]]
    return "it has a negative count" if (counts < 0).any(axis=None) else ""


def _success(shard: Shard[SuccessParameters], context: VerifyingContext) -> _Found:
    given = shard.parameters
    table = context.tables((shard.ref,), "successes")
    drawn = context.table(shard, "rollout", "trajectories")
    drawn = drawn[drawn["trajectory"] < given.trajectories.stop]
    chosen = [chosen_prefixes(steps, given.most_prefixes) for steps in drawn["steps"]]
    sizes = [len(each) for each in chosen]
    expected = [
        np.repeat(drawn["question_id"].to_numpy(str), sizes),
        np.repeat(drawn["trajectory"].to_numpy(), sizes),
        np.concatenate([[], *chosen]).astype(np.int64),
    ]
    wrong = _rows(table, PREFIX, expected)
    yield len(table), wrong
    asked = len(given.follow_ups)
    yield 0, _if((table["follow_ups"] != asked).any(), f"it has prefixes with other than {asked} follow-ups")
    yield from _counts(table.assign(rows=0))
    if not wrong:
        yield 0, _ends_fit(table, drawn, sizes)


def _ends_fit(counts: pd.DataFrame, drawn: pd.DataFrame, sizes: list[int]) -> str:
    """Compare the last prefix of each trajectory, which is the whole one, with the grade of the trajectory."""
    last = counts.iloc[np.cumsum(sizes) - 1] if len(sizes) else counts
    verdict = drawn["verdict"].to_numpy(str)
    known = verdict != "timed out"
    terminal = last["terminal"].to_numpy(bool)
    right = last["successes"].to_numpy() == last["follow_ups"].to_numpy()
    strange = known & ((terminal != (verdict != "unparsed")) | (terminal & (right != (verdict == "correct"))))
    return _if(
        strange.any(),
        f"{strange.sum()} trajectories have a grade that contradicts the success count of the whole trajectory",
    )


def _counts(table: pd.DataFrame) -> _Found:
    k, n = table["successes"].to_numpy(), table["follow_ups"].to_numpy()
    yield (
        0 if "rows" in table else len(table),
        _if(((k < 0) | (k > n)).any(), "it has a count k outside [0, n]"),
    )
    mixed = table["terminal"].to_numpy(bool) & (k != 0) & (k != n)
    yield 0, _if(mixed.any(), "it has a prefix with a final answer that is right in a part of the follow-ups")


def _score(shard: Shard[ScoreParameters], context: VerifyingContext) -> _Found:
    table = context.tables((shard.ref,), "rewards")
    drawn = context.table(shard, "rollout", "trajectories")
    sizes = drawn["steps"].to_numpy() + 1
    expected = [
        np.repeat(drawn["question_id"].to_numpy(str), sizes),
        np.repeat(drawn["trajectory"].to_numpy(), sizes),
        np.concatenate([[], *map(np.arange, sizes)]).astype(np.int64),
    ]
    yield len(table), _rows(table, PREFIX, expected)
    logit, reward = table["logit"].to_numpy(np.float64), table["reward"].to_numpy(np.float64)
    skipped = table["over_long"].to_numpy(bool)
    yield 0, _if(not np.isfinite(logit[~skipped]).all(), "it has a logit that is not finite")
    yield 0, _if(_outside(reward[~skipped]), "it has a reward outside [0, 1]")
    apart = np.abs(reward - expit(logit))[~skipped]
    yield (
        0,
        _if(
            (apart > _REWARD_TOLERANCE).any(),
            f"{(apart > _REWARD_TOLERANCE).sum()} rewards are not those of their logits",
        ),
    )
    read = context.tables((shard.ref,), "scored_tokens")
    expected = [drawn["question_id"].to_numpy(str), drawn["trajectory"].to_numpy()]
    yield len(read), _rows(read, _TRAJECTORY, expected)


def _calibrated(shard: Shard[CalibratedParameters], context: VerifyingContext) -> _Found:
    table = context.tables((shard.ref,), "calibrated_rewards")
    stop = shard.parameters.trajectories.stop
    prefixes = context.made_of(shard, "score", "rewards", _measured_prefixes, stop)
    levels = np.unique(table["level"])
    expected = [np.repeat(levels, len(prefixes[0])), *(np.tile(each, len(levels)) for each in prefixes)]
    wrong = _rows(table, ["level", *PREFIX], expected)
    yield len(table), wrong
    yield 0, _if(not set(shard.parameters.levels) <= set(levels), "it lacks a level that it was asked for")
    reward = table["reward"].to_numpy(np.float64)
    yield 0, _if(_outside(reward), "it has a reward outside [0, 1]")
    if not wrong and len(levels):
        crossing = np.diff(reward.reshape(len(levels), -1), axis=0) < 0
        yield 0, _if(crossing.any(), f"{crossing.any(axis=0).sum()} prefixes have quantiles that cross")


def _measured_prefixes(rewards: pd.DataFrame, stop: int) -> tuple[NDArray[Any], ...]:
    """Return question, trajectory and step of the prefixes that are calibrated, sorted."""
    measured = rewards[(rewards["trajectory"] < stop) & ~rewards["over_long"]].sort_values(PREFIX)
    return tuple(measured[name].to_numpy() for name in PREFIX)


def _search(shard: Shard[SearchParameters], context: VerifyingContext) -> _Found:
    table = context.tables((shard.ref,), "searches")
    ids = [question.id for question in context.questions(shard.parameters.data)]
    yield len(table), _rows(table, ["question_id"], [np.array(ids)])
    yield 0, _of_trajectories(table)
    none_finished = (table["finished"] == 0) & table["any_correct"]
    yield 0, _if(none_finished.any(), "a search without a finished beam has a correct one")
    costs = table[["finished", "rounds", "generations", "generated_tokens", "scored_tokens"]]
    yield 0, _if((costs < 0).any(axis=None), "it has a negative count")


def _fit(shard: Shard[FitParameters], context: VerifyingContext) -> _Found:
    folder = context.store.folder(shard.ref.kind, shard.ref.key)
    names = [path for path in folder.rglob("*") if path.is_file()]
    strange = [path.name for path in names if path.suffix not in _SAFE]
    yield (
        len(names),
        _if(bool(strange), f"it has the file {strange[:1]}, which no calibrator of prmcal writes"),
    )


_CHECKS: dict[str, Callable[[Any, VerifyingContext], _Found]] = {
    "rollout": _rollout,
    "imported": _imported,
    "success": _success,
    "score": _score,
    "calibrated": _calibrated,
    "search": _search,
    "fit": _fit,
}


def _rows(table: pd.DataFrame, names: list[str], expected: list[NDArray[Any]]) -> str:
    """Return how the rows of a table differ from the expected ones, by the columns that identify them."""
    import pandas as pd

    if len(table) == len(expected[0]) and all(
        np.array_equal(table[name].to_numpy(), each) for name, each in zip(names, expected, strict=True)
    ):
        return ""
    wanted = pd.MultiIndex.from_arrays(expected)
    found = pd.MultiIndex.from_frame(table[names])
    missing, strange = len(wanted.difference(found)), len(found.difference(wanted))
    twice = int(found.duplicated().sum())
    told = [
        f"{count} {what}"
        for count, what in (
            (missing, "are missing"),
            (strange, "should not be there"),
            (twice, "are there twice"),
        )
        if count
    ]
    return f"of its {len(wanted)} rows {', '.join(told) or 'some are in another order'}"


def _outside(values: NDArray[np.float64]) -> bool:
    return bool(((values < 0) | (values > 1) | np.isnan(values)).any())


def _if(wrong: Any, message: str) -> str:
    return message if wrong else ""
