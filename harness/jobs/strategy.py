"""The accuracy and the budget of a strategy over the pool, and of a search."""

from functools import partial

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats
from prmcal.db.statistics.bootstrap import QuestionMean, Ratio
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, exact_interval, skewed_interval
from prmcal.errors import FaultyPluginError
from prmcal.harness.jobs import pools
from prmcal.harness.jobs.calibration_metrics import MetricOf, mean_of, question_output
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import LeagueParameters, SearchResultsParameters, StrategyParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.results import check_answered
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy
from prmcal.registry.plugins import strategies


def compute_strategy(shard: Shard[StrategyParameters], context: Context) -> Output:
    """Return accuracy, samples, budget ratio and costs, and pass@n if the strategy reports it."""
    trajectories = pools.graded_trajectories(shard, context)
    parameters = shard.parameters
    allowance = Allowance(parameters.samples, parameters.target)
    with plugin_guard("strategy", parameters.strategy.name, "answer"):
        strategy = tuned_strategy(shard, context, allowance)
        pool = pools.pool_of(shard, context, trajectories, strategy.reads, parameters.level)
        answered = strategy.answer(pool, allowance)
        check_answered(answered, len(trajectories.question_ids), allowance)
    accuracy = np.minimum(answered.accuracy, 1.0)
    metrics = {"accuracy": mean_of(trajectories, accuracy, bounded_interval)}
    metrics |= budgets(trajectories, answered, allowance.samples)
    if answered.pass_at_samples is not None:
        metrics["pass_at_n"] = mean_of(trajectories, answered.pass_at_samples, bounded_interval)
    if answered.order_error is not None:
        errors, ids = answered.order_error, trajectories.question_ids
        metrics["order_error"] = lambda selection: QuestionMean(
            np.full(int(selection.sum()), order_error(errors[selection])), ids[selection], exact_interval
        )
    metrics |= _costs(shard, context, trajectories, answered)
    return question_output(shard, trajectories, metrics, trajectories.correct.shape[1])


def tuned_strategy(
    shard: Shard[StrategyParameters] | Shard[LeagueParameters], context: Context, allowance: Allowance
) -> PoolStrategy:
    """Return the strategy of a shard, tuned on the calibration questions if it asks for that."""
    parameters = shard.parameters
    strategy = parameters.strategy.build(strategies)
    if not isinstance(strategy, PoolStrategy):
        raise FaultyPluginError("it must derive from prmcal.PoolStrategy or prmcal.SearchStrategy.")
    if strategy.tuned:
        calibration_pool = pools.tuning_pool(shard, context, strategy.reads, parameters.level)
        strategy.tune(calibration_pool, allowance)
    return strategy


def budgets(axis: pools.QuestionAxis, answered: Answered, fixed_budget: int) -> dict[str, MetricOf]:
    """Return the number of samples of a strategy, and its ratio to the fixed budget N = `most`, as metrics.

    If the budget was estimated from other numbers of samples, it is the same for every selection of questions. Its
    interval is the interval of the mean of these numbers over all questions.
    """
    shared = answered.estimated_from

    def budget(unit: float) -> MetricOf:
        # Intervals by the same rule are computed at once.
        upper = bounded_interval if fixed_budget == unit else partial(bounded_interval, upper=fixed_budget / unit)
        rule = exact_interval if answered.fixed else upper
        if shared is None:
            return mean_of(axis, answered.samples / unit, rule)
        pooled_mean = QuestionMean(shared / unit, axis.question_ids, rule)
        return lambda selection: pooled_mean

    return {"budget_ratio": budget(float(fixed_budget)), "samples": budget(1.0)}


def order_error(errors: Floats) -> float:
    """Return the standard error of a mean over questions, from the errors of the questions."""
    return float(np.sqrt(np.sum(errors**2)) / len(errors))


def _costs(
    shard: Shard[StrategyParameters], context: Context, trajectories: pools.GradedTrajectories, answered: Answered
) -> dict[str, MetricOf]:
    """Return the expected tokens as metrics.

    Strategies draw trajectories independently of their length, so the means over the pool apply. A question's prompt is
    read once for all of its samples. The PRM reads the bare question as a part of the trajectories, so it is not
    counted separately.
    """
    per_sample = {"generated_tokens": trajectories.tokens.mean(axis=1)}
    if "score" in shard.inputs:
        per_sample["prm_tokens"] = pools.scored_tokens(shard, context, trajectories)
    elif "calibrated" not in shard.inputs:
        per_sample["prm_tokens"] = np.zeros(len(trajectories.question_ids))
    reported = {name: tokens for name, tokens in per_sample.items() if np.isfinite(tokens).all()}
    costs = {name: _tokens(trajectories, answered, tokens) for name, tokens in reported.items()}
    if np.isfinite(trajectories.prompt_tokens).all():
        costs["prefill_tokens"] = mean_of(trajectories, trajectories.prompt_tokens, skewed_interval)
    return costs


def _tokens(axis: pools.QuestionAxis, answered: Answered, per_sample: Floats) -> MetricOf:
    """Return the mean tokens of all samples of a question as a metric, from the mean tokens of one sample."""

    def metric(selection: Bools) -> Ratio:
        tokens = answered.samples[selection] * per_sample[selection]
        if answered.estimated_from is not None:
            # A product of two means, linearised. For a part of the questions the interval is too wide, since the
            # budget is estimated from all of them.
            estimated = answered.estimated_from[selection]
            tokens = tokens + per_sample[selection].mean() * (estimated - estimated.mean())
        return QuestionMean(tokens, axis.question_ids[selection], skewed_interval)

    return metric


def compute_search_results(shard: Shard[SearchResultsParameters], context: Context) -> Output:
    """Return the metrics of a search. Each question is searched once, so its answer is either right or wrong.

    The budget ratio is the sum of the generations over all questions, divided by the same sum of the search of fixed
    width. Numerator and denominator are both estimates: a question that is long for one search is long for the other.
    """
    searches = _by_question(context.table(shard, "search", "searches"))
    fixed = _by_question(context.table(shard, "fixed", "searches")).loc[searches.index]
    axis = pools.QuestionAxis.of(context.questions(shard.parameters.data), searches.index.to_numpy())

    def mean(column: str, interval: IntervalRule = skewed_interval) -> MetricOf:
        return mean_of(axis, searches[column].to_numpy(np.float64), interval)

    def budget_ratio(selection: Bools) -> Ratio:
        counts, fixed_counts = (table["generations"].to_numpy(np.float64)[selection] for table in (searches, fixed))
        return Ratio(counts, fixed_counts, axis.question_ids[selection], skewed_interval)

    metrics = {
        "accuracy": mean("correct", bounded_interval),
        "budget_ratio": budget_ratio,
        "samples": mean("generations"),
        "pass_at_n": mean("any_correct", bounded_interval),
        "generated_tokens": mean("generated_tokens"),
        "prefill_tokens": mean("prefill_tokens"),
        "prm_tokens": mean("scored_tokens"),
    }
    if not searches["prefill_tokens"].all():
        del metrics["prefill_tokens"]  # The LLM does not report them.
    return question_output(shard, axis, metrics, 1)


def _by_question(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index("question_id").sort_index()
