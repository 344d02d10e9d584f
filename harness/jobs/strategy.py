"""The accuracy and the budget of a strategy over the pool, and of a search."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats
from prmcal.db.statistics.bootstrap import QuestionMean, Ratio
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, skewed_interval
from prmcal.errors import FaultyPluginError
from prmcal.harness.jobs import pools
from prmcal.harness.jobs.calibration_metrics import MetricOf, mean_of, question_output
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard, of_other
from prmcal.harness.jobs.parameters import (
    LeagueParameters,
    Parameters,
    SearchResultsParameters,
    StrategyParameters,
)
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.results import check_answered
from prmcal.registry.contracts.strategy import Answered, Asked, PoolStrategy, Setting
from prmcal.registry.plugins import strategies


def compute_strategy(shard: Shard[StrategyParameters], context: Context) -> Output:
    """Return accuracy, samples, budget ratio and costs, and pass@n if the strategy reports it."""
    trajectories = pools.graded_trajectories(shard, context)
    parameters = shard.parameters
    setting = Setting(parameters.samples, parameters.target)
    with plugin_guard("strategy", parameters.strategy.name, "answer"):
        strategy = tuned_strategy(shard, context, setting)
        others = {
            name: pools.graded_trajectories(shard, context, f"{of_other(name)}rollout")
            for name in strategy.others
        }
        pool = pools.test_pool(shard, context, trajectories, strategy.reads, parameters.level, others)
        answered = strategy.answer(pool, setting)
        check_answered(answered, strategy, len(trajectories.question_ids), setting)
    accuracy = np.minimum(answered.accuracy, 1.0)
    metrics = {"accuracy": mean_of(trajectories, accuracy, bounded_interval)}
    metrics |= budgets(trajectories, answered, setting.samples, strategy.most_samples(setting))
    if answered.pass_at_samples is not None:
        metrics["pass_at_n"] = mean_of(trajectories, answered.pass_at_samples, bounded_interval)
    if answered.abstained is not None:
        wrong = np.clip(1.0 - accuracy - answered.abstained, 0.0, 1.0)
        metrics["abstained"] = mean_of(trajectories, answered.abstained, bounded_interval)
        metrics["wrong"] = mean_of(trajectories, wrong, bounded_interval)
    if answered.order_error is not None:
        errors, ids = answered.order_error, trajectories.question_ids
        metrics["order_error"] = lambda chosen: QuestionMean(
            np.full(int(chosen.sum()), order_error(errors[chosen])), ids[chosen], known_interval
        )
    metrics |= _routing(trajectories, answered)
    metrics |= _costs(shard, context, {"": trajectories, **others}, answered)
    return question_output(shard, trajectories, metrics, trajectories.correct.shape[1])


def tuned_strategy(
    shard: Shard[StrategyParameters] | Shard[LeagueParameters], context: Context, setting: Setting
) -> PoolStrategy:
    """Return the strategy of a shard, tuned on the calibration questions if it asks for that."""
    parameters = shard.parameters
    strategy = parameters.strategy.build(strategies)
    if not isinstance(strategy, PoolStrategy):
        raise FaultyPluginError("it must derive from prmcal.PoolStrategy or prmcal.SearchStrategy.")
    if strategy.tuned:
        known = pools.tuning_pool(shard, context, strategy.reads, parameters.level, strategy.others)
        strategy.tune(known, setting)
    return strategy


def budgets(axis: pools.QuestionAxis, answered: Answered, samples: int, most: int) -> dict[str, MetricOf]:
    """Return the number of samples of a strategy, and its ratio to the fixed budget N, as metrics.

    No question gets more samples than `most`.

    If the budget was estimated from other numbers of samples, it is the same for every selection of questions, and its
    interval is that of the mean of these numbers over all questions.
    """
    shared = answered.estimated_from

    def budget(unit: float) -> MetricOf:
        # Intervals by the same rule are computed at once.
        upper = bounded_interval if most == unit else partial(bounded_interval, upper=most / unit)
        rule = known_interval if answered.fixed else upper
        if shared is None:
            return mean_of(axis, answered.samples / unit, rule)
        whole = QuestionMean(shared / unit, axis.question_ids, rule)
        return lambda chosen: whole

    return {"budget_ratio": budget(float(samples)), "samples": budget(1.0)}


def _routing(axis: pools.QuestionAxis, answered: Answered) -> dict[str, MetricOf]:
    """Return what asking a second LLM achieves, as metrics; nothing if only one is asked.

    The last one compares with a random choice of as many questions for the second LLM: the first one's accuracy, plus
    the share of questions that are passed on, times the difference of both. It is linearised in the share and the
    difference.
    """
    if len(answered.asked) != 2:
        return {}
    first, second = answered.asked

    def gain(chosen: Bools) -> Ratio:
        passed, difference = second.chance[chosen], (second.alone - first.alone)[chosen]
        share = passed.mean()
        values = (answered.accuracy - first.alone)[chosen] - share * difference
        values -= difference.mean() * (passed - share)
        return QuestionMean(values, axis.question_ids[chosen], skewed_interval)

    return {
        "escalated": mean_of(axis, second.chance, bounded_interval),
        "gain_over_own": mean_of(axis, answered.accuracy - first.alone, skewed_interval),
        "gain_over_other": mean_of(axis, answered.accuracy - second.alone, skewed_interval),
        "routing_gain": gain,
    }


def order_error(errors: Floats) -> float:
    """Return the standard error of a mean over questions, from those of the questions."""
    return float(np.sqrt(np.sum(errors**2)) / len(errors))


def _costs(
    shard: Shard[Parameters],
    context: Context,
    trajectories: Mapping[str, pools.GradedTrajectories],
    answered: Answered,
) -> dict[str, MetricOf]:
    """Return the expected tokens as metrics.

    Which trajectories a strategy draws does not depend on their length, so the means over the pool apply. A question's
    prompt is read once for all of its samples, by each LLM that is asked. The PRM reads the bare question as a part of
    the trajectories, so it is not counted separately.

    `trajectories` has those of each LLM by its name, which is "" for the strategy's own. So have means per sample.
    """
    axis = trajectories[""]
    everyone = np.ones(len(axis.question_ids))
    asked = answered.asked or (Asked("", everyone, answered.samples, answered.accuracy),)
    per_sample = {"generated_tokens": {llm: each.tokens.mean(axis=1) for llm, each in trajectories.items()}}
    if "score" in shard.inputs:
        per_sample["prm_tokens"] = {
            llm: pools.scored_tokens(shard, context, axis, f"{of_other(llm) if llm else ''}score")
            for llm in trajectories
        }
    elif "calibrated" not in shard.inputs:
        per_sample["prm_tokens"] = dict.fromkeys(trajectories, 0 * everyone)
    costs = {
        name: _tokens(axis, answered, asked, tokens)
        for name, tokens in per_sample.items()
        if all(np.isfinite(each).all() for each in tokens.values())
    }
    if len(asked) > 1:
        costs["other_tokens"] = _tokens(axis, answered, asked[1:], per_sample["generated_tokens"])
    prompts = [each.chance * trajectories[each.llm].prompt_tokens for each in asked]
    if np.isfinite(prompts).all():
        costs["prefill_tokens"] = mean_of(axis, np.sum(prompts, axis=0), skewed_interval)
    return costs


def _tokens(
    axis: pools.QuestionAxis, answered: Answered, asked: Sequence[Asked], per_sample: Mapping[str, Floats]
) -> MetricOf:
    """Return the mean tokens of all samples of a question as a metric, from the mean tokens of one sample."""

    def metric(chosen: Bools) -> Ratio:
        parts = [each.samples[chosen] * per_sample[each.llm][chosen] for each in asked]
        tokens = np.sum(parts, axis=0)
        if answered.estimated_from is not None:
            own = per_sample[""][chosen]
            # A product of two means, linearised. For a part of the questions the interval is too wide, since the
            # budget is estimated from all of them.
            estimated = answered.estimated_from[chosen]
            tokens = tokens + own.mean() * (estimated - estimated.mean())
        return QuestionMean(tokens, axis.question_ids[chosen], skewed_interval)

    return metric


def compute_search_results(shard: Shard[SearchResultsParameters], context: Context) -> Output:
    """Return the metrics of a search. Each question is searched once, so its answer is either right or wrong.

    The budget ratio is the sum of the generations over all questions, divided by that of the search of fixed width over
    the same questions. Both are estimates: a question that is long for one search is long for the other.
    """
    searches = _by_question(context.table(shard, "search", "searches"))
    fixed = _by_question(context.table(shard, "fixed", "searches")).loc[searches.index]
    axis = pools.QuestionAxis.of(context.questions(shard.parameters.data), searches.index.to_numpy())

    def mean(column: str, interval: IntervalRule = skewed_interval) -> MetricOf:
        return mean_of(axis, searches[column].to_numpy(np.float64), interval)

    def budget_ratio(chosen: Bools) -> Ratio:
        own, others = (table["generations"].to_numpy(np.float64)[chosen] for table in (searches, fixed))
        return Ratio(own, others, axis.question_ids[chosen], skewed_interval)

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
