"""The checks for strategies: on small synthetic pools, and for searches, which choose a width."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from prmcal.arrays import Floats
from prmcal.registry.conformance.plugin import expect, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.pool import PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy, SearchStrategy, Strategy
from prmcal.registry.strategies.best_of import pass_at_n

_QUESTIONS, _SIZE, _STEPS, _TARGET = 30, 16, 4, 0.9
_CALIBRATION_SIZE = 4
# The allowed difference for a strategy that draws at random with a fixed seed.
_ERROR = 0.02
_ROUNDING = 1e-9


def _arrays(seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    chance = random.beta(1.0, 1.0, _QUESTIONS)
    correct = random.random((_QUESTIONS, _SIZE)) < chance[:, None]
    answers = np.where(correct, 0, random.integers(-1, 4, correct.shape))
    correct[answers == 0] = True
    scores = np.round(random.normal(correct * 1.5, 1.0), 1)
    rewards = np.clip(chance + random.normal(0, 0.1, _QUESTIONS), 0, 1)
    steps = _step_scores(scores, np.round(logit(np.clip(chance, 0.01, 0.99)), 1), random)
    graded = {"correct": correct, "answers": answers}
    return {**graded, "scores": scores, "step_scores": steps, "rewards": rewards, "success": chance}


def _step_scores(scores: Floats, bare: Floats, random: np.random.Generator) -> Floats:
    """Scores of trajectories of 1 to 4 steps. The last score belongs to the whole trajectory."""
    steps = np.round(random.normal(scores[..., None], 1.0, (*scores.shape, _STEPS + 1)), 1)
    steps[..., 0] = bare[:, None]
    last_step = random.integers(1, _STEPS + 1, scores.shape)[..., None]
    numbers = np.arange(_STEPS + 1)
    return np.where(numbers < last_step, steps, np.where(numbers == last_step, scores[..., None], np.nan))


def _pool(plugin: PoolStrategy, arrays: dict[str, NDArray[Any]]) -> Pool:
    """A pool with only the declared arrays. The next strategy reads the pool too, so none may write to it."""
    for values in arrays.values():
        values.flags.writeable = False
    declared: dict[str, Any] = {name: arrays[name] for name in READS if name in plugin.reads}
    return Pool(arrays["correct"], arrays["answers"], **declared)


def _tuned(plugin: PoolStrategy, allowance: Allowance) -> PoolStrategy:
    """The strategy, tuned on other questions if it wants to be."""
    if plugin.tuned:
        arrays = _arrays(seed=7)
        for name in ("correct", "answers", *PER_TRAJECTORY):
            arrays[name] = arrays[name][:, :_CALIBRATION_SIZE]
        plugin.tune(_pool(plugin, arrays), allowance)
    return plugin


def _answer(plugin: PoolStrategy, arrays: dict[str, NDArray[Any]], target: float = _TARGET) -> Answered:
    """The result of the strategy, after a check by its contract."""
    allowance = Allowance(_SIZE, target if plugin.targeted else None)
    answered = _tuned(plugin, allowance).answer(_pool(plugin, arrays), allowance)
    results.check_answered(answered, _QUESTIONS, allowance)
    expect(answered.samples.min() > 0, "Samples must be above 0. Write np.clip(samples, 1, allowance.samples).")
    return answered


def check_reads_are_known(plugin: Strategy) -> None:
    """`reads` contains known names only."""
    reads: Any = plugin.reads
    words = isinstance(reads, (tuple, list)) and all(isinstance(name, str) for name in reads)
    expect(words, f"'reads' must be a tuple. Got {reads!r}. Write reads = (\"scores\",), with the comma.")
    unknown = sorted(set(reads) - set(READS))
    expect(not unknown, f"'reads' may contain scores, step_scores, rewards and success. Got {', '.join(unknown)}.")


def check_the_same_pool_gives_the_same_answer(plugin: PoolStrategy) -> None:
    """It works on a pool with only the declared arrays, and a second call gives the same result."""
    first, second = _answer(plugin, _arrays()), _answer(plugin, _arrays())
    same = np.array_equal(first.accuracy, second.accuracy) and np.array_equal(first.samples, second.samples)
    expect(
        same,
        "answer() must return the same for the same pool. A second call returned something else. Use a closed form "
        "of registry.strategies.best_of, or np.random.default_rng(0) in every call.",
    )


def check_the_order_of_the_pool_does_not_matter(plugin: PoolStrategy) -> None:
    """The result does not depend on the order of the trajectories in the pool."""
    order = np.random.default_rng(1).permuted(np.tile(np.arange(_SIZE), (_QUESTIONS, 1)), axis=1)
    shuffled = _arrays()
    for name in ("correct", "answers", *PER_TRAJECTORY):
        places = order.reshape(order.shape + (1,) * (shuffled[name].ndim - 2))
        shuffled[name] = np.take_along_axis(shuffled[name], places, axis=1)
    first, second = _answer(plugin, _arrays()), _answer(plugin, shuffled)
    gap = abs(first.accuracy.mean() - second.accuracy.mean())
    expect(
        gap < _ERROR,
        f"The accuracy must not depend on the order of the pool. A shuffle changed it by {gap:.3f}. Write the mean "
        "over all draws, not the result of the first trajectories.",
    )


def check_accuracy_does_not_exceed_pass_at_samples(plugin: PoolStrategy) -> None:
    """The accuracy does not exceed the probability that one of the samples is right."""
    arrays = _arrays()
    answered = _answer(plugin, arrays)
    # A rule that looks at its samples, which has an `order_error`, can be right more often than as many samples that
    # are drawn blindly: it goes on where it has found none.
    samples = answered.samples if answered.order_error is None else np.full(_QUESTIONS, float(_SIZE))
    counts = np.ceil(samples - _ROUNDING).astype(np.int64)
    bound = pass_at_n(arrays["correct"], np.arange(1, _SIZE + 1))[np.arange(_QUESTIONS), counts - 1]
    over = (answered.accuracy - bound).max()
    expect(
        over < _ERROR,
        "The accuracy of a question must not exceed the probability that one of its samples is right. It does by "
        f"{over:.3f}. Check that all used samples are counted, and that the choice does not depend on 'correct'.",
    )


def check_all_wrong_and_all_right_questions(plugin: PoolStrategy) -> None:
    """The accuracy is 0 if no trajectory is right, and 1 if all are right."""
    for are_right in (False, True):
        arrays = _arrays()
        arrays["correct"] = np.full_like(arrays["correct"], are_right)
        arrays["answers"] = np.zeros_like(arrays["answers"])
        answered = _answer(plugin, arrays)
        expect(
            np.allclose(answered.accuracy, float(are_right)),
            f"The accuracy must be 1 if all trajectories are right, and 0 if none is. Got {answered.accuracy}. "
            "Compute it from pool.correct of the chosen trajectories.",
        )


def check_the_truth_decides_no_budget(plugin: PoolStrategy) -> None:
    """The numbers of samples do not depend on which trajectories are right, unless `reads` names success rates."""
    if "success" in plugin.reads:
        return
    turned = _arrays()
    turned["correct"] = ~turned["correct"]
    first, second = (_answer(plugin, arrays).samples for arrays in (_arrays(), turned))
    expect(
        np.allclose(first, second),
        "The numbers of samples must not depend on 'correct', which nobody knows while sampling. Other grades "
        f"changed them by up to {np.abs(first - second).max():.2f}. Decide by scores, rewards and answers. Choose "
        "thresholds in tune(), which gets the calibration questions.",
    )


def check_too_long_questions_are_answered(plugin: PoolStrategy) -> None:
    """Questions and trajectories that are too long for the PRM (NaN) get an answer."""
    arrays = _arrays()
    for name in READS:
        if name != "success":
            arrays[name][:3] = np.nan
    _answer(plugin, arrays)


def check_a_higher_target_costs_no_less(plugin: PoolStrategy) -> None:
    """A targeted strategy does not use fewer samples for a higher target probability C."""
    if plugin.targeted:
        low, high = (_answer(plugin, _arrays(), target).samples.mean() for target in (0.5, 0.99))
        expect(
            low <= high,
            f"C = 0.99 must not cost less than C = 0.5. Got {high:.2f} and {low:.2f} samples. Let the number of "
            "samples rise with allowance.target.",
        )


def check_the_curve_begins_below_its_end(plugin: PoolStrategy) -> None:
    """``sweep`` returns results of all questions. If it has several, their budgets differ."""
    allowance = Allowance(_SIZE, _TARGET if plugin.targeted else None)
    points = _tuned(plugin, allowance).sweep(_pool(plugin, _arrays()), allowance)
    good = bool(points) and all(
        isinstance(point, Answered) and point.samples.shape == (_QUESTIONS,) for point in points
    )
    expect(
        good,
        f"sweep() must return a tuple of Answered, one for each point of the curve. Got {points!r:.200}. Write "
        "return tuple(self.answer(pool, Allowance(allowance.samples, target)) for target in targets).",
    )
    budgets = [point.samples.mean() for point in points]
    expect(
        len(points) == 1 or min(budgets) < max(budgets),
        f"The points of sweep() must differ in their budgets. All have {budgets[0]:.2f} samples. Vary the argument "
        "that decides how many samples are drawn, or do not override sweep().",
    )


DECLARATIONS = (check_reads_are_known,)
CHECKS = further_checks(globals(), DECLARATIONS)


def _rewards(plugin: SearchStrategy) -> list[Floats]:
    """Rewards of the best prefixes in descending order, also 0, 1 and NaN (too long for the PRM)."""
    random = np.random.default_rng(0)
    random_rewards = [-np.sort(-random.random(count)) for count in range(1, plugin.width + 1)]
    ends = [np.array([value]) for value in (0.0, 1.0, np.nan)]
    return [*random_rewards, *ends, np.append(random_rewards[0], np.nan)[: plugin.width]]


def check_the_width_is_in_its_range(plugin: SearchStrategy) -> None:
    """``keep`` returns a number in [1, K], and ``expand`` returns a number in [1, M]."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name, maximum in (("expand", plugin.expansions), ("keep", plugin.width)):
            copied_rewards = rewards.copy()
            width = getattr(plugin, name)(copied_rewards, target)
            expect(np.array_equal(copied_rewards, rewards, equal_nan=True), f"{name}() must change a copy of rewards.")
            expect(
                isinstance(width, int) and 1 <= width <= maximum,
                f"{name}() must return an int in [1, {maximum}] for the rewards {rewards}. Got {width!r}. Write "
                f"int(np.clip(..., 1, {maximum})), and np.nan_to_num(rewards) if NaN is not meant.",
            )


def check_the_same_rewards_give_the_same_width(plugin: SearchStrategy) -> None:
    """The width does not depend on earlier calls, since a resumed search starts from the beginning."""
    target = _TARGET if plugin.targeted else None
    for rewards in _rewards(plugin):
        for name in ("expand", "keep"):
            first, second = (getattr(plugin, name)(rewards, target) for _ in range(2))
            expect(first == second, f"{name}() must be repeatable. Got {first}, then {second}. Keep no state.")


SEARCH_CHECKS = (check_the_width_is_in_its_range, check_the_same_rewards_give_the_same_width)
