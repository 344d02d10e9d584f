"""The checks for strategies, on small synthetic pools."""

from __future__ import annotations

import copy
import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from prmcal.registry.conformance.plugin import expect, expect_array
from prmcal.registry.contracts.pool import PER_CALIBRATOR, PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting, Strategy
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


@dataclass(frozen=True)
class _World:
    """The arrays of the pool of the LLM that a strategy is run for, and of those of the other LLMs that it names."""

    own: dict[str, NDArray[Any]]
    others: dict[str, dict[str, NDArray[Any]]]

    def each(self) -> tuple[dict[str, NDArray[Any]], ...]:
        return (self.own, *self.others.values())


def _world(plugin: PoolStrategy, seed: int = 0) -> _World:
    """Pools of the same questions: with the same success probabilities, since only the LLMs differ."""
    others = {name: _arrays(seed, llm) for llm, name in enumerate(plugin.others, 1)}
    return _World(_arrays(seed), others)


def _pool(plugin: PoolStrategy, world: _World) -> Pool:
    """A pool with only what the strategy declares."""
    others = {name: _pool(plugin, _World(arrays, {})) for name, arrays in world.others.items()}
    arrays = world.own
    declared: dict[str, Any] = {name: arrays[name] for name in READS if name in plugin.reads}
    if PER_CALIBRATOR.intersection(plugin.reads):
        declared["levels"] = _LEVELS
    return Pool(arrays["correct"], arrays["answers"], others=others, **declared)


def _tuned(plugin: PoolStrategy, setting: Setting) -> PoolStrategy:
    """The strategy, tuned on other questions if it wants to be."""
    if plugin.tuned:
        world = _world(plugin, seed=7)
        for arrays in world.each():
            for name in ("correct", "answers", *PER_TRAJECTORY):
                arrays[name] = arrays[name][:, :_CALIBRATION_SIZE]
        plugin.tune(_pool(plugin, world), setting)
    return plugin


def _answer(plugin: PoolStrategy, world: _World, target: float = _TARGET) -> Answered:
    """The result of the strategy, after a check of its shape and range."""
    setting = Setting(_SIZE, target if plugin.targeted else None)
    try:
        result = _tuned(plugin, setting).answer(_pool(plugin, world), setting)
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
    shape = (_QUESTIONS,)
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
    most = plugin.most_samples(setting)
    expect(
        low > 0 and high <= most + _ROUNDING,
        f"Samples must be above 0 and at most N = {most}. Got {low} to {high}. Write np.clip(samples, 1, "
        "setting.samples).",
    )
    flaw = result.asked_flaw(plugin.others) or result.budget_flaw()
    expect(flaw is None, f"{flaw}")
    _check_asked(result)
    return result


def _check_asked(result: Answered) -> None:
    for asked in result.asked:
        for name, most in (("chance", 1), ("samples", _SIZE), ("alone", 1)):
            values = getattr(asked, name)
            found = getattr(values, "shape", type(values).__name__)
            expect(
                found == (_QUESTIONS,)
                and bool(np.all((values >= -_ROUNDING) & (values <= most + _ROUNDING))),
                f"'{name}' of '{asked.llm}' in 'asked' must have shape (questions,) = ({_QUESTIONS},) and lie in "
                f"[0, {most}]. Got {values!r:.200}.",
            )


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


def check_others_are_names(plugin: PoolStrategy) -> None:
    """`others` contains the names of LLMs, each once."""
    others: Any = plugin.others
    words = isinstance(others, (tuple, list)) and all(isinstance(each, str) and each for each in others)
    example = others if isinstance(others, str) else "my-strong-llm"
    expect(
        words and len(set(others)) == len(others),
        f"'others' must be a tuple of different names. Got {others!r}. Write others = (\"{example}\",), with the "
        "comma.",
    )


def check_it_works_with_what_it_declares(plugin: PoolStrategy) -> None:
    """The strategy works on a pool with only what it declares. Shapes and ranges are right."""
    _answer(plugin, _world(plugin))


def check_the_same_pool_gives_the_same_answer(plugin: PoolStrategy) -> None:
    """A second call gives the same result."""
    first, second = _answer(plugin, _world(plugin)), _answer(plugin, _world(plugin))
    same = np.array_equal(first.accuracy, second.accuracy) and np.array_equal(first.samples, second.samples)
    expect(
        same,
        "answer() must return the same for the same pool. A second call returned something else. "
        "Use a closed form of registry.strategies.exact, or np.random.default_rng(0) in every call.",
    )


def check_the_pool_is_not_changed(plugin: PoolStrategy) -> None:
    """``answer`` does not change the arrays of the pool, which the next strategy reads."""
    world = _world(plugin)
    given = copy.deepcopy(world)
    _answer(plugin, given)
    for arrays, after in zip(world.each(), given.each(), strict=True):
        for name, before in arrays.items():
            expect(
                np.array_equal(before, after[name], equal_nan=True),
                f"answer() must not change the pool. '{name}' changed. Work on a copy: np.sort(pool.{name}) instead "
                f"of pool.{name}.sort().",
            )


def check_the_order_of_the_pool_does_not_matter(plugin: PoolStrategy) -> None:
    """The result does not depend on the order of the trajectories in the pool."""
    order = np.random.default_rng(1).permuted(np.tile(np.arange(_SIZE), (_QUESTIONS, 1)), axis=1)
    shuffled = _world(plugin)
    for arrays in shuffled.each():
        for name in ("correct", "answers", *PER_TRAJECTORY):
            places = order.reshape(order.shape + (1,) * (arrays[name].ndim - 2))
            arrays[name] = np.take_along_axis(arrays[name], places, axis=1)
    first, second = _answer(plugin, _world(plugin)), _answer(plugin, shuffled)
    gap = abs(first.accuracy.mean() - second.accuracy.mean())
    expect(
        gap < _ERROR,
        f"The accuracy must not depend on the order of the pool. A shuffle changed it by {gap:.3f}. "
        "Write the mean over all draws, not the result of the first trajectories.",
    )


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
    for arrays in world.each():
        wrong *= 1 - pass_at_n(arrays["correct"], np.arange(1, _SIZE + 1))[np.arange(_QUESTIONS), counts - 1]
    bound = 1 - wrong
    over = (result.accuracy - bound).max()
    expect(
        over < _ERROR,
        "The accuracy of a question must not exceed the probability that one of its samples is right. It does by "
        f"{over:.3f}. Check that all used samples are counted, and that the choice does not depend on 'correct'.",
    )


def check_all_wrong_and_all_right_questions(plugin: PoolStrategy) -> None:
    """The accuracy is 0 if no trajectory is right, and 1 if all are right."""
    for right in (False, True):
        world = _world(plugin)
        for arrays in world.each():
            arrays["correct"] = np.full_like(arrays["correct"], right)
            arrays["answers"] = np.zeros_like(arrays["answers"])
        result = _answer(plugin, world)
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
    turned = _world(plugin)
    for arrays in turned.each():
        arrays["correct"] = ~arrays["correct"]
    first, second = (_answer(plugin, each).samples for each in (_world(plugin), turned))
    expect(
        bool(np.allclose(first, second)),
        "The numbers of samples must not depend on 'correct', which nobody knows while sampling. Other grades changed "
        f"them by up to {np.abs(first - second).max():.2f}. Decide by scores, rewards and answers. Choose thresholds "
        "in tune(), which gets the calibration questions.",
    )


def check_too_long_questions_are_answered(plugin: PoolStrategy) -> None:
    """Questions and trajectories that are too long for the PRM (NaN) get an answer."""
    world = _world(plugin)
    for arrays in world.each():
        for name in READS:
            if name != "success":
                arrays[name][:3] = np.nan
    _answer(plugin, world)


def check_a_higher_target_costs_no_less(plugin: PoolStrategy) -> None:
    """A targeted strategy does not use fewer samples for a higher target probability C."""
    if plugin.targeted:
        low, high = (_answer(plugin, _world(plugin), target).samples.mean() for target in (0.5, 0.99))
        expect(
            low <= high,
            f"C = 0.99 must not cost less than C = 0.5. Got {high:.2f} and {low:.2f} samples. Let the number of "
            "samples "
            "rise with setting.target.",
        )


def check_the_curve_begins_below_its_end(plugin: PoolStrategy) -> None:
    """``sweep`` returns results of all questions. If it has several, their budgets differ."""
    setting = Setting(_SIZE, _TARGET if plugin.targeted else None)
    points = _tuned(plugin, setting).sweep(_pool(plugin, _world(plugin)), setting)
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


DECLARATIONS = (check_reads_are_known, check_others_are_names)
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
