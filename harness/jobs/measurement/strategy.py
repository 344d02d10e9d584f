"""Strategy: compute the expected results of a strategy on the pool, for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.harness.jobs.context import Context, Output, plugin_guard, require
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.results import question_output
from prmcal.harness.jobs.measurement.trajectories import (
    GradedTrajectories,
    QuestionAxis,
    graded_trajectories,
    last_scores,
    scored_tokens,
)
from prmcal.harness.jobs.parameters import Parameters, StrategyParameters
from prmcal.registry.contracts.strategy import Answered, Pool, PoolStrategy, Setting
from prmcal.registry.plugins import strategies

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bare_rewards", "compute"]


def compute(shard: Shard[StrategyParameters], context: Context) -> Output:
    """Return accuracy, samples, budget ratio and costs, and pass@n if the strategy reports it."""
    trajectories = graded_trajectories(shard, context)
    parameters = shard.parameters
    setting = Setting(parameters.samples, parameters.target)
    with plugin_guard("strategy", parameters.strategy.name, "answer"):
        strategy = parameters.strategy.build(strategies)
        if not isinstance(strategy, PoolStrategy):
            raise PluginFailedError("it must derive from prmcal.PoolStrategy or prmcal.SearchStrategy.")
        answered = strategy.answer(_pool(shard, context, trajectories, strategy.reads), setting)
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
    shard: Shard[Parameters],
    context: Context,
    trajectories: GradedTrajectories,
    samples: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Return the expected tokens for each question.

    Which trajectories a strategy draws does not depend on their length, so the means over the pool apply. A question's
    prompt is read once for all of its samples. The PRM reads the bare question as a part of the trajectories, so it is
    not counted separately.
    """
    costs = {
        "generated_tokens": samples * trajectories.tokens.mean(axis=1),
        "prefill_tokens": trajectories.prompt_tokens,
    }
    if "score" in shard.inputs:
        costs["prm_tokens"] = samples * scored_tokens(shard, context, trajectories)
    elif "calibrated" not in shard.inputs:
        costs["prm_tokens"] = np.zeros(len(samples))
    return {name: tokens for name, tokens in costs.items() if np.isfinite(tokens).all()}


def _pool(
    shard: Shard[StrategyParameters],
    context: Context,
    trajectories: GradedTrajectories,
    reads: Sequence[str],
) -> Pool:
    """Return the pool with what the strategy reads."""
    level = shard.parameters.level
    rewards = None
    if level is not None and "rewards" in reads:
        rewards = bare_rewards(shard, context, trajectories, level)
    return Pool(
        trajectories.correct,
        trajectories.answers,
        scores=last_scores(shard, context) if "scores" in reads else None,
        rewards=rewards,
        success=_success_rates(shard, context, trajectories) if "success" in reads else None,
    )


def bare_rewards(
    shard: Shard[Parameters], context: Context, axis: QuestionAxis, level: float
) -> NDArray[np.float64]:
    """Return the calibrated reward of each bare question at a level; NaN where it is too long for the PRM."""
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    at_level = np.isclose(rewards["level"], level)
    return _by_question(rewards[(rewards["step"] == 0) & at_level], "reward", axis)


def _success_rates(
    shard: Shard[Parameters], context: Context, trajectories: GradedTrajectories
) -> NDArray[np.float64]:
    """Return the share of correct ones among the trajectories and the bare question's follow-ups.

    Both are samples of the same probability.
    """
    counts = context.table(shard, "success", "successes")
    # The bare question is the same prefix in all of its trajectories and was followed up once for all of them.
    bare = counts[(counts["step"] == 0) & (counts["trajectory"] == 0)]
    sums = bare.groupby("question_id", as_index=False)[["successes", "follow_ups"]].sum()
    followed, right = (_by_question(sums, name, trajectories) for name in ("follow_ups", "successes"))
    correct = trajectories.correct
    rates: NDArray[np.float64] = (correct.sum(axis=1) + right) / (correct.shape[1] + followed)
    return rates


def _by_question(table: pd.DataFrame, column: str, axis: QuestionAxis) -> NDArray[np.float64]:
    first = table.groupby("question_id")[column].first()
    values: NDArray[np.float64] = first.reindex(axis.question_ids).to_numpy(np.float64)
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
        require(bool(inside.all()), f"its '{name}' contains {values[~inside][:1]}, outside [0, {upper}].")
