"""Strategy: what a strategy makes of a pool, for each question in expectation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.pool import (
    QuestionPool,
    last_scores,
    pool_of,
    question_output,
    scored_tokens,
)
from prmcal.registry.contracts.strategy import Answered, Pool, PoolStrategy, Setting
from prmcal.registry.plugins import KINDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bare_rewards", "compute"]


def compute(shard: Shard, context: Context) -> Output:
    """Accuracy, samples and budget ratio per question, and pass@n of as many samples where the strategy tells it."""
    trajectories = pool_of(shard, context)
    given = shard.parameters["strategy"]
    setting = Setting(shard.parameters["samples"], shard.parameters["target"])
    with plugin_guard("strategy", given["name"], "answer"):
        strategy = cast(PoolStrategy, KINDS["strategy"].create(given["plugin"], **given["arguments"]))
        answered = strategy.answer(_readable(shard, context, trajectories, strategy.reads), setting)
        _check(answered, len(trajectories.question_ids), setting.samples)
    values = {
        "accuracy": np.minimum(answered.accuracy, 1.0),
        "budget_ratio": answered.samples / setting.samples,
        "samples": answered.samples,
    }
    if answered.pass_at_samples is not None:
        values["pass_at_n"] = answered.pass_at_samples
    values |= _costs(shard, context, trajectories, answered.samples)
    return question_output(shard, trajectories, values, trajectories.correct.shape[1])


def _costs(
    shard: Shard, context: Context, pool: QuestionPool, samples: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Expected tokens per question. What a strategy draws does not hang on its length: means over the pool hold.

    A question's prompt is read once for all of its samples. What the PRM reads of the bare
    question it reads again with the trajectories, and is not counted twice.
    """
    costs = {"generated_tokens": samples * pool.tokens.mean(axis=1), "prefill_tokens": pool.prompt_tokens}
    if "score" in shard.inputs:
        costs["prm_tokens"] = samples * scored_tokens(shard, context, pool)
    elif "calibrated" not in shard.inputs:
        costs["prm_tokens"] = np.zeros(len(samples))
    return {name: tokens for name, tokens in costs.items() if np.isfinite(tokens).all()}


def _readable(shard: Shard, context: Context, pool: QuestionPool, reads: Sequence[str]) -> Pool:
    """The pool with what the strategy reads."""
    return Pool(
        pool.correct,
        pool.answers,
        scores=last_scores(shard, context) if "scores" in reads else None,
        rewards=bare_rewards(shard, context, pool, shard.parameters["level"]) if "rewards" in reads else None,
        success=_success_rates(shard, context, pool) if "success" in reads else None,
    )


def bare_rewards(shard: Shard, context: Context, pool: QuestionPool, level: float) -> NDArray[np.float64]:
    """The calibrated reward of each bare question at a level; NaN where it was too long."""
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    at_level = np.isclose(rewards["level"], level)
    return _by_question(rewards[(rewards["step"] == 0) & at_level], "reward", pool)


def _success_rates(shard: Shard, context: Context, pool: QuestionPool) -> NDArray[np.float64]:
    """Right ones of the pool and the bare question's follow-ups: both are samples of the same probability."""
    counts = context.table(shard, "success", "successes")
    # The bare question is the same prefix in all of its trajectories, and was followed up once for all of them.
    bare = counts[(counts["step"] == 0) & (counts["trajectory"] == 0)]
    sums = bare.groupby("question_id", as_index=False)[["successes", "follow_ups"]].sum()
    followed, right = (_by_question(sums, name, pool) for name in ("follow_ups", "successes"))
    rates: NDArray[np.float64] = (pool.correct.sum(axis=1) + right) / (pool.correct.shape[1] + followed)
    return rates


def _by_question(table: pd.DataFrame, column: str, pool: QuestionPool) -> NDArray[np.float64]:
    first = table.groupby("question_id")[column].first()
    values: NDArray[np.float64] = first.reindex(pool.question_ids).to_numpy(np.float64)
    return values


def _check(answered: Answered, questions: int, most: int) -> None:
    require(isinstance(answered, Answered), "it must return an Answered.")
    named = {"accuracy": answered.accuracy, "samples": answered.samples}
    if answered.pass_at_samples is not None:
        named["pass_at_samples"] = answered.pass_at_samples
    for name, values in named.items():
        shape = np.shape(values)
        require(shape == (questions,), f"its '{name}' has the shape {shape} instead of {(questions,)}.")
        require(bool(np.isfinite(values).all()), f"its '{name}' is not finite.")
        upper = most if name == "samples" else 1
        inside = (values >= 0) & (values <= upper + 1e-9)
        require(bool(inside.all()), f"its '{name}' holds {values[~inside][:1]}, outside [0, {upper}].")
