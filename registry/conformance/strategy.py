"""The checks for strategies, on small synthetic pools."""

from __future__ import annotations

import copy
import difflib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from prmcal.registry.conformance.plugin import expect, expect_array
from prmcal.registry.contracts.pool import PER_CALIBRATOR, PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting, Strategy
from prmcal.registry.strategies.exact import pass_at_n

__all__ = ["CHECKS", "DECLARATIONS", "check_reads_are_known"]

_QUESTIONS, _SIZE, _STEPS, _TARGET = 30, 16, 4, 0.9
_CALIBRATION_SIZE = 4
_LEVELS = (0.1, 0.5, 0.9)
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


def _step_scores(
    scores: NDArray[np.float64], bare: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Scores of trajectories of 1 to 4 steps, whose last one is that of the whole trajectory."""
    steps = np.round(random.normal(scores[..., None], 1.0, (*scores.shape, _STEPS + 1)), 1)
    steps[..., 0] = bare[:, None]
    last = random.integers(1, _STEPS + 1, scores.shape)[..., None]
    numbers = np.arange(_STEPS + 1)
    return np.where(numbers < last, steps, np.where(numbers == last, scores[..., None], np.nan))


def _at_levels(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.clip(rewards[..., None] + np.array([-0.1, 0.0, 0.1]), 0, 1)
    return found


def _pool(plugin: Strategy, arrays: dict[str, NDArray[Any]]) -> Pool:
    """A pool with only what the strategy declares."""
    declared: dict[str, Any] = {name: arrays[name] for name in READS if name in plugin.reads}
    if PER_CALIBRATOR.intersection(plugin.reads):
        declared["levels"] = _LEVELS
    return Pool(arrays["correct"], arrays["answers"], **declared)


def _tuned(plugin: PoolStrategy, setting: Setting) -> PoolStrategy:
    """The strategy, tuned on other questions if it wants to be."""
    if plugin.tuned:
        arrays = _arrays(seed=7)
        for name in ("correct", "answers", *PER_TRAJECTORY):
            arrays[name] = arrays[name][:, :_CALIBRATION_SIZE]
        plugin.tune(_pool(plugin, arrays), setting)
    return plugin


def _answer(plugin: PoolStrategy, arrays: dict[str, NDArray[Any]], target: float = _TARGET) -> Answered:
    """The result of the strategy, after a check of its shape and range."""
    setting = Setting(_SIZE, target if plugin.targeted else None)
    try:
        result = _tuned(plugin, setting).answer(_pool(plugin, arrays), setting)
    except TypeError as error:
        if "NoneType" not in str(error) or plugin.targeted:
            raise
        raise AssertionError(
            f"answer() raised TypeError: {error}. Without 'targeted', setting.target is None. Write targeted = True if "
            "the strategy uses the target."
        ) from error
    expect(
        isinstance(result, Answered),
        f"answer() must return an Answered. Got {type(result).__name__}. Write `return Answered(accuracy, samples)`, "
        "with "
        "an array of shape (questions,) each.",
    )
    shape = (len(arrays["correct"]),)
    for name in ("accuracy", "samples"):
        values = getattr(result, name)
        found = getattr(values, "shape", type(values).__name__)
        expect(
            found == shape,
            f"'{name}' must have shape (questions,) = {shape}. Got {found}. Give every question its own value: "
            "np.full(pool.questions, value) if all are equal.",
        )
        expect_array(f"'{name}'", values, "a float type", np.floating)
        expect(
            bool(np.isfinite(values).all()),
            f"'{name}' must be finite. Got {values}. Scores and rewards are NaN where the input was too long for the "
            "PRM. Give these questions a number of samples too.",
        )
    low, high = result.accuracy.min(), result.accuracy.max()
    expect(
        low >= 0 and high <= 1 + _ROUNDING,
        f"Accuracies must be in [0, 1]. Got {low} to {high}. Write the mean over the draws, not the sum.",
    )
    low, high = result.samples.min(), result.samples.max()
    expect(
        low > 0 and high <= _SIZE + _ROUNDING,
        f"Samples must be above 0 and at most N = {_SIZE}. Got {low} to {high}. Write np.clip(samples, 1, "
        "setting.samples).",
    )
    flaw = result.budget_flaw()
    expect(flaw is None, f"{flaw}")
    return result


def check_reads_are_known(plugin: Strategy) -> None:
    """`reads` contains known names only."""
    reads: Any = plugin.reads
    words = isinstance(reads, (tuple, list)) and all(isinstance(each, str) for each in reads)
    example = reads if isinstance(reads, str) and reads in READS else "scores"
    expect(words, f"'reads' must be a tuple. Got {reads!r}. Write reads = (\"{example}\",), with the comma.")
    unknown = sorted(set(reads) - set(READS))
    close = [difflib.get_close_matches(each, READS, n=1, cutoff=0)[0] for each in unknown]
    expect(
        not unknown,
        f"'reads' may contain {', '.join(READS)}. Got {', '.join(unknown)}. Write \"{''.join(close[:1])}\" instead.",
    )


def check_it_works_with_what_it_declares(plugin: PoolStrategy) -> None:
    """The strategy works on a pool with only what it declares. Shapes and ranges are right."""
    _answer(plugin, _arrays())


def check_the_same_pool_gives_the_same_answer(plugin: PoolStrategy) -> None:
    """A second call gives the same result."""
    first, second = _answer(plugin, _arrays()), _answer(plugin, _arrays())
    same = np.array_equal(first.accuracy, second.accuracy) and np.array_equal(first.samples, second.samples)
    expect(
        same,
        "answer() must return the same for the same pool. A second call returned something else. "
        "Use a closed form of registry.strategies.exact, or np.random.default_rng(0) in every call.",
    )


def check_the_pool_is_not_changed(plugin: PoolStrategy) -> None:
    """``answer`` does not change the arrays of the pool, which the next strategy reads."""
    arrays = _arrays()
    given = copy.deepcopy(arrays)
    _answer(plugin, given)
    for name, before in arrays.items():
        expect(
            np.array_equal(before, given[name], equal_nan=True),
            f"answer() must not change the pool. '{name}' changed. Work on a copy: np.sort(pool.{name}) instead of "
            f"pool.{name}.sort().",
        )


def check_the_order_of_the_pool_does_not_matter(plugin: PoolStrategy) -> None:
    """The result does not depend on the order of the trajectories in the pool."""
    arrays = _arrays()
    order = np.random.default_rng(1).permuted(np.tile(np.arange(_SIZE), (_QUESTIONS, 1)), axis=1)
    shuffled = dict(arrays)
    for name in ("correct", "answers", *PER_TRAJECTORY):
        places = order.reshape(order.shape + (1,) * (arrays[name].ndim - 2))
        shuffled[name] = np.take_along_axis(arrays[name], places, axis=1)
    first, second = _answer(plugin, arrays), _answer(plugin, shuffled)
    gap = abs(first.accuracy.mean() - second.accuracy.mean())
    expect(
        gap < _ERROR,
        f"The accuracy must not depend on the order of the pool. A shuffle changed it by {gap:.3f}. "
        "Write the mean over all draws, not the result of the first trajectories.",
    )


def check_accuracy_does_not_exceed_pass_at_samples(plugin: PoolStrategy) -> None:
    """The accuracy does not exceed the probability that one of the samples is right."""
    arrays = _arrays()
    result = _answer(plugin, arrays)
    # A rule that looks at its samples, as one with an `order_error`, can be right more often than as many samples that
    # are drawn blindly: it goes on where it has found none.
    drawn = result.samples if result.order_error is None else np.full(_QUESTIONS, float(_SIZE))
    counts = np.ceil(drawn - _ROUNDING).astype(np.int64)
    bound = pass_at_n(arrays["correct"], np.arange(1, _SIZE + 1))[np.arange(_QUESTIONS), counts - 1]
    over = (result.accuracy - bound).max()
    expect(
        over < _ERROR,
        "The accuracy of a question must not exceed the probability that one of its samples is right. It does by "
        f"{over:.3f}. Check that all used samples are counted, and that the choice does not depend on 'correct'.",
    )


def check_all_wrong_and_all_right_questions(plugin: PoolStrategy) -> None:
    """The accuracy is 0 if no trajectory is right, and 1 if all are right."""
    for right in (False, True):
        arrays = _arrays()
        arrays["correct"] = np.full_like(arrays["correct"], right)
        arrays["answers"] = np.zeros_like(arrays["answers"])
        result = _answer(plugin, arrays)
        found = result.accuracy
        answered = 1.0 if result.abstained is None else 1.0 - result.abstained
        expect(
            bool(np.allclose(found, float(right) * answered)),
            f"The accuracy must be {int(right)} if {'all' if right else 'no'} trajectories are right. Got {found}. "
            "Compute it from pool.correct of the chosen trajectories.",
        )


def check_the_truth_decides_no_budget(plugin: PoolStrategy) -> None:
    """The numbers of samples do not depend on which trajectories are right, unless `reads` names success rates."""
    if "success" in plugin.reads:
        return
    arrays = _arrays()
    turned = {**arrays, "correct": ~arrays["correct"]}
    first, second = (_answer(plugin, each).samples for each in (arrays, turned))
    expect(
        bool(np.allclose(first, second)),
        "The numbers of samples must not depend on 'correct', which nobody knows while sampling. Other grades changed "
        f"them by up to {np.abs(first - second).max():.2f}. Decide by scores, rewards and answers. Choose thresholds "
        "in tune(), which gets the calibration questions.",
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
            "samples "
            "rise with setting.target.",
        )


def check_the_curve_begins_below_its_end(plugin: PoolStrategy) -> None:
    """``sweep`` returns results of all questions. If it has several, their budgets differ."""
    arrays, setting = _arrays(), Setting(_SIZE, _TARGET if plugin.targeted else None)
    points = _tuned(plugin, setting).sweep(_pool(plugin, arrays), setting)
    good = bool(points) and all(
        isinstance(each, Answered) and each.samples.shape == (_QUESTIONS,) for each in points
    )
    expect(
        good,
        f"sweep() must return a tuple of Answered, one for each point of the curve. Got {points!r:.200}. Write "
        "return tuple(self.answer(pool, Setting(setting.samples, target)) for target in targets).",
    )
    budgets = [each.samples.mean() for each in points]
    expect(
        len(points) == 1 or min(budgets) < max(budgets),
        f"The points of sweep() must differ in their budgets. All have {budgets[0]:.2f} samples. Vary the argument "
        "that decides how many samples are drawn, or do not override sweep().",
    )


DECLARATIONS = (check_reads_are_known,)
CHECKS = (
    check_it_works_with_what_it_declares,
    check_the_same_pool_gives_the_same_answer,
    check_the_pool_is_not_changed,
    check_the_order_of_the_pool_does_not_matter,
    check_accuracy_does_not_exceed_pass_at_samples,
    check_all_wrong_and_all_right_questions,
    check_the_truth_decides_no_budget,
    check_too_long_questions_are_answered,
    check_a_higher_target_costs_no_less,
    check_the_curve_begins_below_its_end,
)
