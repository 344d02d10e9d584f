"""Answer new questions by a beam search."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference.answering.asking import Asking
from prmcal.harness.inference.answering.drawing import Failed
from prmcal.harness.inference.answering.open_question import Drawn, OpenQuestion
from prmcal.harness.inference.answering.solutions import failed_solution, given_answer, reward_band
from prmcal.harness.inference.answering.solving import IN_FLIGHT, open_questions
from prmcal.harness.inference.basis.familiarity import familiarity_of
from prmcal.harness.inference.basis.models import Models, each_or_error
from prmcal.harness.inference.basis.results import Solution, Spent
from prmcal.harness.jobs.beam_search import Searched, beam_search
from prmcal.harness.jobs.context import plugin_guard
from prmcal.harness.jobs.search import calibrating
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.search import SearchStrategy

__all__ = ["search"]


def search(models: Models, asking: Asking, questions: Sequence[str]) -> Iterator[tuple[int, Solution]]:
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
                yield question.number, _solution(models, asking, question, result)


def _searched(models: Models, asking: Asking, questions: Sequence[OpenQuestion]) -> list[Searched]:
    strategy, llm = asking.strategy, models.llm
    assert isinstance(strategy, SearchStrategy)
    if llm is None:
        raise PrmcalError("This calibrated PRM was loaded without an LLM, so it cannot answer questions.")
    calibrate = calibrating(models.rewarder.calibrator, models.rewarder.prm, asking.level)
    asked = [
        # The seeds of a search follow from the id. So the answer does not depend on the other questions.
        Question(hashlib.sha256(each.text.encode()).hexdigest(), each.text, "")
        for each in questions
    ]
    with plugin_guard("strategy", asking.name, "search"):
        return models.alone(
            lambda: beam_search(
                asked,
                llm,
                models.rewarder.prm,
                strategy,
                calibrate,
                models.sampling,
                asking.setting.target,
                asking.seed,
            )
        )


def _solution(models: Models, asking: Asking, question: OpenQuestion, found: Searched) -> Solution:
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
