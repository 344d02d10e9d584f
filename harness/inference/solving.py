"""Answer new questions: draw trajectories until the strategy needs no more, or search, for many questions at once.

In each round every open question gets the trajectories that its strategy asks for, in one call of the LLM and one of
the PRM. Questions that are finished make room for others. The answer to a question does not depend on the others,
except for a strategy that divides a budget between the questions that are open together.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference.asking import Asking, check_question
from prmcal.harness.inference.calibration_questions import familiarity_of
from prmcal.harness.inference.drawing import Draw, Drawn, Failed, OpenQuestion, draw_whole, pool_of, step_of
from prmcal.harness.inference.models import Answerer, each_or_error
from prmcal.harness.inference.results import Familiarity, Solution, Spent, Step, Stopped
from prmcal.harness.inference.rewarding import Rewarded, first_terminal, median_place
from prmcal.harness.jobs.plugin_calls import plugin_guard, require
from prmcal.harness.jobs.search import Searched, beam_search, calibrating
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.contracts.strategy import Choice, PoolStrategy
from prmcal.registry.strategies.sequential import SequentialRule


@dataclass(frozen=True, slots=True)
class Given:
    """The answer that is given.

    Attributes
    ----------
    answer : str or None
    withheld : bool
        Whether there is an answer that is not given.
    why_not : str
        Why no answer is given, as a sentence after a space; empty if one is.
    """

    answer: str | None
    withheld: bool = False
    why_not: str = ""


def given_answer(
    asking: Asking, answer: str | None, probability: float | None, by_strategy: bool = False
) -> Given:
    """Return the answer that is given, and why not if there is none.

    Parameters
    ----------
    asking : Asking
    answer : str or None
        The final answer of the chosen trajectory.
    probability : float or None
    by_strategy : bool
        Whether the strategy withholds it.
    """
    if answer is None:
        return Given(None, why_not=" The chosen trajectory has no final answer.")
    bound = asking.abstain_below
    if bound is not None and (probability is None or probability < bound):
        return Given(None, True, f" The answer is withheld: its probability is below {bound:g}.")
    if by_strategy:
        return Given(None, True, f" The strategy '{asking.name}' withholds the answer.")
    return Given(answer)


def reward_band(
    rewarded: Rewarded, steps: Sequence[str], levels: tuple[float, ...]
) -> tuple[float | None, float | None, float | None]:
    """Return the median of the last prefix without a final answer, and its lowest and highest quantile.

    The quantiles are None if there is one level only. All are None if the prefix is too long for the PRM.
    """
    quantiles = rewarded.quantiles[first_terminal(steps) - 1]
    if not np.isfinite(quantiles).all():
        return None, None, None
    middle = float(quantiles[median_place(levels)])
    return (middle, None, None) if len(levels) == 1 else (middle, float(quantiles[0]), float(quantiles[-1]))


def failed_solution(question: str, error: PrmcalError, spent: Spent | None = None) -> Solution:
    """Return what is said of a question that failed."""
    return Solution(
        question=question if isinstance(question, str) else "",
        answer=None,
        probability=None,
        low=None,
        high=None,
        basis="reward",
        abstained=False,
        stopped="failed",
        reason="An error ended the question.",
        spent=spent or Spent(),
        rewards=None,
        trajectories=(),
        chosen=None,
        familiarity=Familiarity(True),
        error=str(error),
    )


IN_FLIGHT = 128
"""The largest number of questions that are open at a time."""


def solve(
    models: Answerer, asking: Asking, questions: Sequence[str], draw: Draw = draw_whole
) -> Iterator[Step | tuple[int, Solution]]:
    """Answer questions.

    Parameters
    ----------
    models : Answerer
    asking : Asking
        With a strategy that draws whole trajectories.
    questions : sequence of str
    draw : callable
        How trajectories are drawn.

    Yields
    ------
    Step, or tuple of (int, Solution)
        Steps, if `draw` gives any. The solution of each question with its place, as soon as it is there. A question
        that fails has an `error`.
    """
    waiting = deque(enumerate(questions))
    going: list[OpenQuestion] = []
    while waiting or going:
        admitted = [waiting.popleft() for _ in range(min(len(waiting), IN_FLIGHT - len(going)))]
        failed: Failed = {}
        new = open_questions(models, admitted, failed)
        yield from (
            (number, failed_solution(text, failed[number])) for number, text in admitted if number in failed
        )
        if draw is not draw_whole:
            yield from (step_of(0, 0, (), each.bare, models.rewarder.levels) for each in new)
        going += new
        failed = {}
        needed = _needed(models, asking, going, failed)
        wanted = [
            (each, count - len(each.drawn))
            for each, count in zip(going, needed, strict=True)
            if count > len(each.drawn)
        ]
        busy = {each.number for each, _ in wanted}
        done = [each for each in going if each.number not in busy and each.number not in failed]
        yield from _solutions(models, asking, done)
        yield from draw(models, wanted, asking.seed, _reads_calibrated(asking), failed)
        yield from (
            (each.number, failed_solution(each.text, failed[each.number], each.spent()))
            for each in going
            if each.number in failed
        )
        going = [each for each, _ in wanted if each.number not in failed]


def open_questions(
    models: Answerer, admitted: Sequence[tuple[int, str]], failed: Failed
) -> list[OpenQuestion]:
    """Check questions and score them as they are."""
    started = time.monotonic()
    checked = []
    for number, question in admitted:
        try:
            checked.append((number, check_question(question)))
        except PrmcalError as error:
            failed[number] = error
    found = each_or_error(lambda part: models.rewards([(text, ()) for _, text in part]), checked)
    opened = []
    for (number, text), bare in zip(checked, found, strict=True):
        if isinstance(bare, Rewarded) and np.isnan(bare.logit[0]):
            bare = PrmcalError(
                f"The question is too long for the PRM '{models.rewarder.reference.name}', which reads at most "
                f"{getattr(models.rewarder.prm, 'max_tokens', 'fewer')} tokens. It has {len(text):,} characters."
            )
        if isinstance(bare, PrmcalError):
            failed[number] = bare
        else:
            opened.append(OpenQuestion(number, text, bare, started, prm_tokens=bare.tokens))
    return opened


def _reads_calibrated(asking: Asking) -> bool:
    return bool({"trajectory_rewards", "step_rewards"}.intersection(asking.strategy.reads))


def _needed(models: Answerer, asking: Asking, going: Sequence[OpenQuestion], failed: Failed) -> list[int]:
    """Return the number of trajectories that each question needs before the next decision."""
    if not going:
        return []
    strategy = asking.strategy
    assert isinstance(strategy, PoolStrategy)
    drawn = np.array([len(each.drawn) for each in going], dtype=np.int64)
    try:
        with plugin_guard("strategy", asking.name, "decide"):
            pool = pool_of(going, asking.setting.samples, models.rewarder.levels, asking.level)
            found = np.asarray(strategy.needed(pool, drawn, asking.setting))
            require(
                found.shape == drawn.shape and bool((found >= 1).all()),
                f"'needed' must return an int of at least 1 for each of {len(drawn)} questions.",
            )
    except PrmcalError as error:
        failed |= {each.number: error for each in going}
        return [int(each) for each in drawn]
    return [int(each) for each in np.minimum(found, asking.setting.samples)]


def _solutions(
    models: Answerer, asking: Asking, done: Sequence[OpenQuestion]
) -> Iterator[tuple[int, Solution]]:
    """Choose the answers of finished questions, and compute the rewards of the trajectories that give them."""
    choices: list[tuple[OpenQuestion, Choice]] = []
    for each, choice in zip(
        done, each_or_error(lambda part: [_choice(models, asking, one) for one in part], done), strict=True
    ):
        if isinstance(choice, PrmcalError):
            yield each.number, failed_solution(each.text, choice, each.spent())
        else:
            choices.append((each, choice))
    missing = [
        (each, each.drawn[choice.trajectory])
        for each, choice in choices
        if each.drawn[choice.trajectory].rewarded is None
    ]
    found = each_or_error(
        lambda part: models.rewards([(each.text, drawn.steps) for each, drawn in part]), missing
    )
    errors: Failed = {}
    for (each, drawn), result in zip(missing, found, strict=True):
        if isinstance(result, PrmcalError):
            errors[each.number] = result
        else:
            drawn.rewarded = result
            each.prm_tokens += result.tokens
    for each, choice in choices:
        if each.number in errors:
            yield each.number, failed_solution(each.text, errors[each.number], each.spent())
        else:
            yield each.number, _solution(models, asking, each, choice)


def _choice(models: Answerer, asking: Asking, question: OpenQuestion) -> Choice:
    strategy = asking.strategy
    assert isinstance(strategy, PoolStrategy)
    with plugin_guard("strategy", asking.name, "choose an answer"):
        pool = pool_of([question], len(question.drawn), models.rewarder.levels, asking.level)
        choice = strategy.choose(pool, asking.setting)
        require(
            isinstance(choice, Choice) and 0 <= choice.trajectory < len(question.drawn),
            f"'choose' must return a Choice of one of {len(question.drawn)} trajectories.",
        )
    return choice


def _solution(models: Answerer, asking: Asking, each: OpenQuestion, choice: Choice) -> Solution:
    drawn = each.drawn[choice.trajectory]
    rewarded = drawn.rewarded
    assert rewarded is not None
    stopped, reason = _why(asking, len(each.drawn))
    probability, low, high = None, None, None
    if drawn.answer is not None and models.chances is not None:
        answers = each.answers
        chance = models.chances.of(each.scores, answers, int(answers[choice.trajectory]))
        probability, low, high = chance.probability, chance.low, chance.high
    elif drawn.answer is not None:
        probability, low, high = reward_band(rewarded, drawn.steps, models.rewarder.levels)
    given = given_answer(asking, drawn.answer, probability, choice.withheld)
    return Solution(
        question=each.text,
        answer=given.answer,
        probability=probability,
        low=low,
        high=high,
        basis="posterior" if models.chances is not None else "reward",
        abstained=given.withheld,
        stopped=stopped,
        reason=reason + given.why_not,
        spent=each.spent(),
        rewards=rewarded.result(models.rewarder.levels, drawn.steps, models.rewarder.calibrator is None),
        trajectories=tuple(one.result() for one in each.drawn),
        chosen=choice.trajectory,
        familiarity=familiarity_of(models.calibration, each.text, float(each.bare.logit[0]), each.scores),
    )


def _why(asking: Asking, drawn: int) -> tuple[Stopped, str]:
    samples = "1 sample" if drawn == 1 else f"{drawn} samples"
    if not isinstance(asking.strategy, SequentialRule):
        return "planned", f"The strategy '{asking.name}' planned {samples}."
    aim = "" if asking.setting.target is None else f" (target {asking.setting.target:g})"
    if drawn >= asking.setting.samples:
        return (
            "budget",
            f"The strategy '{asking.name}' was not sure enough{aim} after {samples}, the most it may draw.",
        )
    return "sure", f"The strategy '{asking.name}' needed no more than {samples}{aim}."


def search(models: Answerer, asking: Asking, questions: Sequence[str]) -> Iterator[tuple[int, Solution]]:
    """Answer questions by the search of `asking`, some of them together.

    Yields
    ------
    tuple of (int, Solution)
        The place of a question and its solution. The trajectories of a solution are the prefixes that the search kept.
        Their rewards were chosen among many, so the probability of the answer is the calibrated reward of its
        trajectory, and tends to be too high.
    """
    for first in range(0, len(questions), IN_FLIGHT):
        failed: Failed = {}
        admitted = list(enumerate(questions[first : first + IN_FLIGHT], start=first))
        opened = open_questions(models, admitted, failed)
        found = each_or_error(lambda part: _searched(models, asking, part), opened)
        for number, text in admitted:
            if number in failed:
                yield number, failed_solution(text, failed[number])
        for question, result in zip(opened, found, strict=True):
            if isinstance(result, PrmcalError):
                yield question.number, failed_solution(question.text, result)
            else:
                yield question.number, _solution_of_search(models, asking, question, result)


def _searched(models: Answerer, asking: Asking, questions: Sequence[OpenQuestion]) -> list[Searched]:
    strategy, llm = asking.strategy, models.llm
    assert isinstance(strategy, SearchStrategy)
    calibrate = calibrating(models.rewarder.calibrator, models.rewarder.prm, asking.level)
    asked = [
        # The seeds of a search follow from the id. So the answer does not depend on the other questions.
        Question(hashlib.sha256(each.text.encode()).hexdigest(), each.text, "")
        for each in questions
    ]
    with plugin_guard("strategy", asking.name, "search"), models.models.lock:
        return beam_search(
            asked,
            llm,
            models.rewarder.prm,
            strategy,
            calibrate,
            models.sampling,
            asking.setting.target,
            asking.seed,
        )


def _solution_of_search(
    models: Answerer, asking: Asking, question: OpenQuestion, found: Searched
) -> Solution:
    kept = [
        Drawn(beam.steps, beam.tokens, "end" if beam.finished else "length", np.array([beam.logit]))
        for beam in found.kept
    ]
    answer = kept[0].answer
    (rewarded,) = models.rewards([(question.text, kept[0].steps)])
    probability, low, high = None, None, None
    if answer is not None:
        probability, low, high = reward_band(rewarded, kept[0].steps, models.rewarder.levels)
    given = given_answer(asking, answer, probability)
    reason = f"The strategy '{asking.name}' ended after {found.rounds} rounds."
    return Solution(
        question=question.text,
        answer=given.answer,
        probability=probability,
        low=low,
        high=high,
        basis="reward",
        abstained=given.withheld,
        stopped="planned",
        reason=reason + given.why_not,
        spent=Spent(
            samples=found.generations,
            generated_tokens=found.generated_tokens,
            prm_tokens=found.scored_tokens + question.prm_tokens + rewarded.tokens,
            seconds=time.monotonic() - question.started,
        ),
        rewards=rewarded.result(models.rewarder.levels, kept[0].steps, models.rewarder.calibrator is None),
        trajectories=tuple(each.result() for each in kept),
        chosen=0,
        familiarity=familiarity_of(
            models.calibration, question.text, float(question.bare.logit[0]), np.empty(0)
        ),
    )
