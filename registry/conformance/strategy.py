"""The checks for strategies: on small synthetic pools, and for searches, which choose a width."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from prmcal.arrays import Floats
from prmcal.registry.conformance.plugin import expect, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.pool import PER_CALIBRATOR, PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, SearchStrategy, Setting, Strategy
from prmcal.registry.strategies.best_of import pass_at_n

_QUESTIONS, _SIZE, _STEPS, _TARGET = 30, 16, 4, 0.9
_CALIBRATION_SIZE = 4
_LEVELS = (0.1, 0.5, 0.9)
# The allowed difference for a strategy that draws at random with a fixed seed.
_ERROR = 0.02
_ROUNDING = 1e-9


def _arrays(seed: int = 0, llm: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    chance = random.beta(1.0, 1.0, _QUESTIONS)
    if llm:
        random = np.random.default_rng([seed, llm])
    correct = random.random((_QUESTIONS, _SIZE)) < chance[:, None]
    answers = np.where(correct, 0, random.integers(-1, 4, correct.shape))
    correct[answers == 0] = True
    scores = np.round(random.normal(correct * 1.5, 1.0), 1)
    rewards = np.clip(chance + random.normal(0, 0.1, _QUESTIONS), 0, 1)
    steps = _step_scores(scores, np.round(logit(np.clip(chance, 0.01, 0.99)), 1), random)
    return {
        "correct": correct,
        "answers": answers,
        "scores": scores,
        "step_scores": steps,
        "rewards": rewards,
        "question_rewards": _at_levels(rewards),
        "trajectory_rewards": _at_levels(expit(scores)),
        "step_rewards": _at_levels(expit(steps)),
        "success": chance,
    }


def _step_scores(scores: Floats, bare: Floats, random: np.random.Generator) -> Floats:
    """Scores of trajectories of 1 to 4 steps, whose last one is that of the whole trajectory."""
    steps = np.round(random.normal(scores[..., None], 1.0, (*scores.shape, _STEPS + 1)), 1)
    steps[..., 0] = bare[:, None]
    last = random.integers(1, _STEPS + 1, scores.shape)[..., None]
    numbers = np.arange(_STEPS + 1)
    return np.where(numbers < last, steps, np.where(numbers == last, scores[..., None], np.nan))


def _at_levels(rewards: Floats) -> Floats:
    return np.asarray(np.clip(rewards[..., None] + np.array([-0.1, 0.0, 0.1]), 0, 1), dtype=np.float64)


_World = dict[str, dict[str, NDArray[Any]]]
"""The arrays of the pools of LLMs, by their names: "" is the LLM that a strategy is run for, before those it names."""


def _world(plugin: PoolStrategy, seed: int = 0) -> _World:
    """Pools of the same questions: with the same success probabilities, since only the LLMs differ."""
    return {name: _arrays(seed, llm) for llm, name in enumerate(("", *plugin.others))}


def _pool(plugin: PoolStrategy, world: _World) -> Pool:
    """A pool with only what the strategy declares."""
    others = {name: _pool(plugin, {"": arrays}) for name, arrays in world.items() if name}
    arrays = world[""]
    declared: dict[str, Any] = {name: arrays[name] for name in READS if name in plugin.reads}
    if PER_CALIBRATOR.intersection(plugin.reads):
        declared["levels"] = _LEVELS
    return Pool(arrays["correct"], arrays["answers"], others=others, **declared)


def _tuned(plugin: PoolStrategy, setting: Setting) -> PoolStrategy:
    """The strategy, tuned on other questions if it wants to be."""
    if plugin.tuned:
        world = _world(plugin, seed=7)
        for arrays in world.values():
            for name in ("correct", "answers", *PER_TRAJECTORY):
                arrays[name] = arrays[name][:, :_CALIBRATION_SIZE]
        plugin.tune(_pool(plugin, world), setting)
    return plugin


def _answer(plugin: PoolStrategy, world: _World, target: float = _TARGET) -> Answered:
    """The result of the strategy, after a check by its contract."""
    setting = Setting(_SIZE, target if plugin.targeted else None)
    result = _tuned(plugin, setting).answer(_pool(plugin, world), setting)
    results.check_answered(result, plugin, _QUESTIONS, setting)
    expect(result.samples.min() > 0, "samples must be above")
    return result


def check_reads_are_known(plugin: Strategy) -> None:
    """`reads` contains known names only."""
    reads: Any = plugin.reads
    words = isinstance(reads, (tuple, list)) and all(isinstance(each, str) for each in reads)
    expect(words, "reads must be a", reads=reads)
    unknown = sorted(set(reads) - set(READS))
    expect(not unknown, "reads may contain got", unknown=", ".join(unknown))


def check_others_are_names(plugin: PoolStrategy) -> None:
    """`others` contains the names of LLMs, each once."""
    others: Any = plugin.others
    words = isinstance(others, (tuple, list)) and all(isinstance(each, str) and each for each in others)
    expect(words and len(set(others)) == len(others), "others must be a", others=others)


def check_it_works_with_what_it_declares(plugin: PoolStrategy) -> None:
    """The strategy works on a pool with only what it declares. Shapes and ranges are right."""
    _answer(plugin, _world(plugin))


def check_the_same_pool_gives_the_same_answer(plugin: PoolStrategy) -> None:
    """A second call gives the same result."""
    first, second = _answer(plugin, _world(plugin)), _answer(plugin, _world(plugin))
    same = np.array_equal(first.accuracy, second.accuracy) and np.array_equal(first.samples, second.samples)
    expect(same, "answer() must return the")


def check_the_pool_is_not_changed(plugin: PoolStrategy) -> None:
    """``answer`` does not change the arrays of the pool, which the next strategy reads."""
    world = _world(plugin)
    given = copy.deepcopy(world)
    _answer(plugin, given)
    for arrays, after in zip(world.values(), given.values(), strict=True):
        for name, before in arrays.items():
            expect(np.array_equal(before, after[name], equal_nan=True), "answer() must not change", name=name)


def check_the_order_of_the_pool_does_not_matter(plugin: PoolStrategy) -> None:
    """The result does not depend on the order of the trajectories in the pool."""
    order = np.random.default_rng(1).permuted(np.tile(np.arange(_SIZE), (_QUESTIONS, 1)), axis=1)
    shuffled = _world(plugin)
    for arrays in shuffled.values():
        for name in ("correct", "answers", *PER_TRAJECTORY):
            places = order.reshape(order.shape + (1,) * (arrays[name].ndim - 2))
            arrays[name] = np.take_along_axis(arrays[name], places, axis=1)
    first, second = _answer(plugin, _world(plugin)), _answer(plugin, shuffled)
    gap = abs(first.accuracy.mean() - second.accuracy.mean())
    expect(gap < _ERROR, "the accuracy must not", gap=gap)


def check_accuracy_does_not_exceed_pass_at_samples(plugin: PoolStrategy) -> None:
    """The accuracy does not exceed the probability that one of the samples is right."""
    world = _world(plugin)
    result = _answer(plugin, world)
    # A rule that looks at its samples, as one with an `order_error` or with `others`, can be right more often than as
    # many samples that are drawn blindly: it goes on where it has found none.
    blind = result.order_error is None and not plugin.others
    drawn = result.samples if blind else np.full(_QUESTIONS, float(_SIZE))
    counts = np.ceil(drawn - _ROUNDING).astype(np.int64)
    wrong = np.ones(_QUESTIONS)
    for arrays in world.values():
        wrong *= 1 - pass_at_n(arrays["correct"], np.arange(1, _SIZE + 1))[np.arange(_QUESTIONS), counts - 1]
    bound = 1 - wrong
    over = (result.accuracy - bound).max()
    expect(over < _ERROR, "the accuracy of a", over=over)


def check_all_wrong_and_all_right_questions(plugin: PoolStrategy) -> None:
    """The accuracy is 0 if no trajectory is right, and 1 if all are right."""
    for right in (False, True):
        world = _world(plugin)
        for arrays in world.values():
            arrays["correct"] = np.full_like(arrays["correct"], right)
            arrays["answers"] = np.zeros_like(arrays["answers"])
        result = _answer(plugin, world)
        answered = 1.0 if result.abstained is None else 1.0 - result.abstained
        expect(np.allclose(result.accuracy, right * answered), "the accuracy must be", result=result)


def check_the_truth_decides_no_budget(plugin: PoolStrategy) -> None:
    """The numbers of samples do not depend on which trajectories are right, unless `reads` names success rates."""
    if "success" in plugin.reads:
        return
    turned = _world(plugin)
    for arrays in turned.values():
        arrays["correct"] = ~arrays["correct"]
    first, second = (_answer(plugin, each).samples for each in (_world(plugin), turned))
    expect(np.allclose(first, second), "the numbers of samples", high=np.abs(first - second).max())


def check_too_long_questions_are_answered(plugin: PoolStrategy) -> None:
    """Questions and trajectories that are too long for the PRM (NaN) get an answer."""
    world = _world(plugin)
    for arrays in world.values():
        for name in READS:
            if name != "success":
                arrays[name][:3] = np.nan
    _answer(plugin, world)


def check_a_higher_target_costs_no_less(plugin: PoolStrategy) -> None:
    """A targeted strategy does not use fewer samples for a higher target probability C."""
    if plugin.targeted:
        low, high = (_answer(plugin, _world(plugin), target).samples.mean() for target in (0.5, 0.99))
        expect(low <= high, "c 0.99 must not", high=high, low=low)


def check_the_curve_begins_below_its_end(plugin: PoolStrategy) -> None:
    """``sweep`` returns results of all questions. If it has several, their budgets differ."""
    setting = Setting(_SIZE, _TARGET if plugin.targeted else None)
    points = _tuned(plugin, setting).sweep(_pool(plugin, _world(plugin)), setting)
    good = bool(points) and all(
        isinstance(each, Answered) and each.samples.shape == (_QUESTIONS,) for each in points
    )
    expect(good, "sweep() must return a", points=points)
    budgets = [each.samples.mean() for each in points]
    expect(len(points) == 1 or min(budgets) < max(budgets), "the points of sweep()", value=budgets[0])


DECLARATIONS = (check_reads_are_known, check_others_are_names)
CHECKS = further_checks(globals(), DECLARATIONS)


def _rewards(plugin: SearchStrategy) -> list[Floats]:
    """Rewards of the best prefixes in descending order, also 0, 1 and NaN (too long for the PRM)."""
    random = np.random.default_rng(0)
    drawn = [-np.sort(-random.random(count)) for count in range(1, plugin.width + 1)]
    ends = [np.array([value]) for value in (0.0, 1.0, np.nan)]
    return [*drawn, *ends, np.append(drawn[0], np.nan)[: plugin.width]]


def check_the_width_is_in_its_range(plugin: SearchStrategy) -> None:
    """``keep`` returns a number in [1, K], and ``expand`` returns a number in [1, M]."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name, most in (("expand", plugin.expansions), ("keep", plugin.width)):
            given = rewards.copy()
            found = getattr(plugin, name)(given, target)
            expect(np.array_equal(given, rewards, equal_nan=True), "must not change the", name=name)
            expect(
                isinstance(found, int) and 1 <= found <= most,
                "must return an int",
                name=name,
                most=most,
                rewards=rewards,
                found=found,
            )


def check_the_same_rewards_give_the_same_width(plugin: SearchStrategy) -> None:
    """The width does not depend on earlier calls, since a resumed search starts from the beginning."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name in ("expand", "keep"):
            first, second = (getattr(plugin, name)(rewards, target) for _ in range(2))
            expect(first == second, "must return the same", name=name, first=first, second=second)


SEARCH_CHECKS = (check_the_width_is_in_its_range, check_the_same_rewards_give_the_same_width)
