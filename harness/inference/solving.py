"""Answer new questions: draw trajectories until the strategy needs no more, or search, for many questions at once.

In each round every open question gets the trajectories that its strategy asks for, in one call of the LLM and one of
the PRM. Questions that are finished make room for others. The answer to a question does not depend on the others,
except for a strategy that divides a budget between the questions that are open together.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference import drawing
from prmcal.harness.inference.asking import Asking
from prmcal.harness.inference.calibration_questions import familiarity_of
from prmcal.harness.inference.models import Answerer
from prmcal.harness.inference.results import PrefixRewards, Solution, Step, Stopped
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.results import require
from prmcal.registry.contracts.strategy import PoolStrategy, SearchStrategy
from prmcal.registry.grading import grade_answer
from prmcal.registry.strategies.safe_choice import SafeChoice
from prmcal.registry.strategies.sequential import SequentialRule

IN_FLIGHT = 128
"""The largest number of questions that are open at a time."""


def solve(
    models: Answerer,
    asking: Asking,
    questions: Sequence[str],
    references: Sequence[str | None] = (),
    by_steps: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Step | tuple[int, Solution]]:
    """Answer questions. With `by_steps`, trajectories are drawn step by step; a search gives no steps.

    `references` are the right answers as far as they are known, for all questions or for none. No round begins once
    `stopped` returns True.

    Yields the steps, with `by_steps`, and the solution of each question with its place, as soon as it is there. The
    solution of a question that fails has an `error`.
    """
    searching = isinstance(asking.strategy, SearchStrategy)
    draw: drawing.Draw = (
        drawing.search if searching else drawing.draw_by_steps if by_steps else drawing.draw_whole
    )
    known = references or [None] * len(questions)
    asked = [
        drawing.OpenQuestion(*each) for each in zip(range(len(questions)), questions, known, strict=True)
    ]
    if models.alarm is not None:
        for each in asked:
            each.place = models.alarm.place()
    waiting = deque(asked)
    going: list[drawing.OpenQuestion] = []
    try:
        while (waiting or going) and not stopped():
            new = [waiting.popleft() for _ in range(min(len(waiting), IN_FLIGHT - len(going)))]
            drawing.open_questions(models, new)
            going += new
            if draw is drawing.draw_by_steps:
                yield from (
                    drawing.steps_of(models, 0, (), each.bare)[0] for each in new if each.error is None
                )
            if not searching:
                _decide(models, asking, [each for each in going if each.error is None])
            done = [each for each in going if each.error is not None or not each.missing]
            yield from ((each.number, _solution(models, asking, each)) for each in done)
            going = [each for each in going if each not in done]
            yield from draw(models, asking, going)
    finally:  # Nobody waits for questions that are left.
        for each in asked:
            _alarmed(models, each, {})


def _alarmed(models: Answerer, question: drawing.OpenQuestion, values: Mapping[str, float]) -> str:
    """Give the values of a question to the alarm, unless it has them, and return its message."""
    if models.alarm is None:
        return ""
    if question.place is not None:
        models.alarm.add(question.place, values)
        question.place = None
    return models.alarm.message


def _decide(models: Answerer, asking: Asking, going: Sequence[drawing.OpenQuestion]) -> None:
    """Note the number of trajectories that each question needs before the next decision."""
    if not going:
        return
    strategy, most = asking.strategy, asking.setting.samples
    assert isinstance(strategy, PoolStrategy)
    drawn = np.array([len(each.drawn) for each in going], dtype=np.int64)
    try:
        with plugin_guard("strategy", asking.name, "decide"):
            pool = drawing.pool_of(going, most, models.levels, asking.level)
            needed = np.asarray(strategy.needed(pool, drawn, asking.setting))
            require(
                needed.shape == drawn.shape and bool((needed >= 1).all()),
                f"'needed' must return an int of at least 1 for each of {len(drawn)} questions.",
            )
    except PrmcalError as error:
        for each in going:
            each.error = error
        return
    for each, count in zip(going, needed, strict=True):
        each.needed = min(int(count), most)


def _solution(models: Answerer, asking: Asking, each: drawing.OpenQuestion) -> Solution:
    """Choose the answer of a finished question, and say how sure it is."""
    try:
        if each.error is not None:
            raise each.error
        choice = _choice(models, asking, each)
    except PrmcalError as error:
        text = each.text if isinstance(each.text, str) else ""
        return Solution(text, spent=each.spent(), error=str(error))
    searched = isinstance(asking.strategy, SearchStrategy)
    chances = None if searched else models.chances
    drawn = each.drawn[choice]
    rewards = models.result(drawn.rewarded, drawn.steps)
    probability: float | None = None
    low: float | None = None
    high: float | None = None
    if drawn.answer is not None and chances is not None:
        answers = each.answers
        probability, low, high = chances.of(each.scores, answers, int(answers[choice]))
    elif drawn.answer is not None:
        probability, low, high = _reward_band(rewards)
    stopped, reason = _why(asking, each)
    withheld, bound = "", asking.abstain_below
    if drawn.answer is None:
        reason += " The chosen trajectory has no final answer."
    elif bound is not None and (probability is None or probability < bound):
        withheld = f" The answer is withheld: its probability is below {bound:g}."
    scores = np.empty(0) if searched else each.scores
    first_right = None if searched else _is_right(each.drawn[0].answer, each.reference)
    bare = float(each.bare.logit[0])
    familiarity = familiarity_of(models.calibration, each.text, bare, scores, first_right)
    return Solution(
        question=each.text,
        answer=None if withheld else drawn.answer,
        probability=probability,
        low=low,
        high=high,
        basis="reward" if chances is None else "posterior",
        abstained=bool(withheld),
        stopped=stopped,
        reason=reason + withheld,
        spent=each.spent(),
        rewards=rewards,
        trajectories=tuple(one.result() for one in each.drawn),
        chosen=choice,
        correct=None if withheld or drawn.answer is None else _is_right(drawn.answer, each.reference),
        familiarity=familiarity,
        alarm=_alarmed(models, each, familiarity.values),
    )


def _is_right(answer: str | None, reference: str | None) -> bool | None:
    """Return if an answer is right; None if nobody knows."""
    if reference is None:
        return None
    return answer is not None and grade_answer(answer, reference) == "correct"


def _choice(models: Answerer, asking: Asking, question: drawing.OpenQuestion) -> int:
    strategy = asking.strategy
    if not isinstance(strategy, PoolStrategy):
        return 0  # The best prefix of a search is the first.
    with plugin_guard("strategy", asking.name, "choose an answer"):
        pool = drawing.pool_of([question], len(question.drawn), models.levels, asking.level)
        choice = strategy.choose(pool, asking.setting)
        require(
            isinstance(choice, int) and 0 <= choice < len(question.drawn),
            f"'choose' must return the index of one of {len(question.drawn)} trajectories.",
        )
    return choice


def _reward_band(rewards: PrefixRewards) -> tuple[float | None, float | None, float | None]:
    """Return the median of the last prefix without a final answer, and its lowest and highest quantile.

    The quantiles are None if there is one level only. All are None if the prefix is too long for the PRM.
    """
    place = rewards.terminal.index(True) - 1 if True in rewards.terminal else -1
    quantiles = rewards.quantiles[place]
    if quantiles is None or len(quantiles) == 1:
        return rewards.point[place], None, None
    return rewards.point[place], quantiles[0], quantiles[-1]


def _why(asking: Asking, each: drawing.OpenQuestion) -> tuple[Stopped, str]:
    samples = "1 sample" if each.samples == 1 else f"{each.samples} samples"
    if isinstance(asking.strategy, SafeChoice):
        rule = asking.strategy.chosen(asking.setting).text
        if rule == "one sample":
            return (
                "planned",
                "By the calibration questions, nothing is surely better than 1 sample: the safe choice.",
            )
        return "planned", f"The safe choice is '{rule}'. It drew {samples}."
    if not isinstance(asking.strategy, SequentialRule):
        return "planned", f"The strategy '{asking.name}' planned {samples}."
    aim = "" if asking.setting.target is None else f" (target {asking.setting.target:g})"
    if each.samples >= asking.setting.samples:
        return (
            "budget",
            f"The strategy '{asking.name}' was not sure enough{aim} after {samples}, the most it may draw.",
        )
    return "sure", f"The strategy '{asking.name}' needed no more than {samples}{aim}."
