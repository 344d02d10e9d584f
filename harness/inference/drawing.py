"""Open questions, and the trajectories that are drawn for them: whole ones in large batches, or step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import PrmcalError
from prmcal.harness.inference.models import Answerer, each_or_error
from prmcal.harness.inference.results import Spent, Step, Trajectory
from prmcal.harness.inference.rewarding import Rewarded, first_terminal, median_place
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.grading import extract_answer
from prmcal.steps import in_thought, join_steps, split_steps


@dataclass(eq=False)
class Drawn:
    """One trajectory.

    Attributes
    ----------
    steps : tuple of str
    tokens : int
        Generated tokens.
    finish_reason : str
    step_scores : ndarray of shape (T + 1,), float64
        The PRM's log-odds after t steps. NaN where the prefix is too long for the PRM.
    rewarded : Rewarded or None
        Its calibrated rewards, if they are known already.
    """

    steps: tuple[str, ...]
    tokens: int
    finish_reason: str
    step_scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    rewarded: Rewarded | None = None

    @property
    def text(self) -> str:
        """The steps, separated by blank lines."""
        return join_steps(self.steps)

    @property
    def answer(self) -> str | None:
        """The final answer, or None."""
        return extract_answer(self.text)

    @property
    def score(self) -> float:
        """The PRM's log-odds of the whole trajectory; NaN if it is too long for the PRM."""
        return float(self.step_scores[-1])

    def result(self) -> Trajectory:
        """Return it as plain data."""
        score = None if np.isnan(self.score) else self.score
        return Trajectory(self.text, self.answer, score, self.tokens, self.finish_reason)


@dataclass(eq=False)
class OpenQuestion:
    """A question that is not answered yet.

    Attributes
    ----------
    number : int
        Its place among the questions of the call.
    text : str
    bare : Rewarded
        The rewards of the bare question.
    drawn : list of Drawn
    prm_tokens : int
    started : float
        On the clock of ``time.monotonic``.
    """

    number: int
    text: str
    bare: Rewarded
    started: float
    drawn: list[Drawn] = field(default_factory=list)
    prm_tokens: int = 0

    def seed(self, seed: int, *place: int) -> int:
        """Return the seed of a sample, which does not depend on the other questions of the call."""
        return seed_from_key(content_key(["ask", seed, self.text, *place]))

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answers as numbers in the order of their first appearance; -1 for none. Equal texts are equal."""
        numbers: dict[str, int] = {}
        given = [each.answer for each in self.drawn]
        return np.array(
            [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in given],
            dtype=np.int64,
        )

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores of whole trajectories, of shape (drawn,)."""
        return np.array([each.score for each in self.drawn], dtype=np.float64)

    def spent(self) -> Spent:
        """Return what it has cost so far."""
        return Spent(
            samples=len(self.drawn),
            generated_tokens=sum(each.tokens for each in self.drawn),
            prm_tokens=self.prm_tokens,
            seconds=time.monotonic() - self.started,
        )


def pool_of(
    questions: Sequence[OpenQuestion], size: int, levels: tuple[float, ...], level: float | None
) -> Pool:
    """Return the trajectories of some questions as a strategy reads them; see :meth:`prmcal.PoolStrategy.needed`.

    Parameters
    ----------
    questions : sequence of OpenQuestion
        At least one.
    size : int
        The number of trajectories of each question in the pool. Those that are not drawn have no answer, and NaN.
    levels : tuple of float
        The levels of the calibrated rewards.
    level : float or None
        The level of `rewards`.
    """
    count = len(questions)
    longest = max((len(each.step_scores) for one in questions for each in one.drawn), default=1)
    answers = np.full((count, size), -1, dtype=np.int64)
    scores = np.full((count, size), np.nan)
    step_scores = np.full((count, size, longest), np.nan)
    step_rewards = np.full((count, size, longest, len(levels)), np.nan)
    trajectory_rewards = np.full((count, size, len(levels)), np.nan)
    for row, question in enumerate(questions):
        answers[row, : len(question.drawn)] = question.answers
        for column, drawn in enumerate(question.drawn):
            scores[row, column] = drawn.score
            step_scores[row, column, : len(drawn.step_scores)] = drawn.step_scores
            if drawn.rewarded is not None:
                quantiles = drawn.rewarded.quantiles
                step_rewards[row, column, : len(quantiles)] = quantiles
                trajectory_rewards[row, column] = quantiles[-1]
    bare = np.stack([question.bare.quantiles[0] for question in questions])
    nearest = 0 if level is None else int(np.argmin(np.abs(np.array(levels) - level)))
    return Pool(
        np.zeros((count, size), dtype=np.bool_),
        answers,
        scores=scores,
        rewards=bare[:, nearest],
        step_scores=step_scores,
        question_rewards=bare,
        trajectory_rewards=trajectory_rewards,
        step_rewards=step_rewards,
        levels=levels,
    )


Failed = dict[int, PrmcalError]
"""Errors by the number of the question."""

Draw = Callable[[Answerer, Sequence[tuple[OpenQuestion, int]], int, bool, Failed], Iterator[Step]]
"""Draw some more trajectories of each question: the models, the questions with their counts, the seed, whether all
trajectories need calibrated rewards, and where to note failures."""

_MOST_STEPS = 1000


def draw_whole(
    models: Answerer, wanted: Sequence[tuple[OpenQuestion, int]], seed: int, calibrated: bool, failed: Failed
) -> Iterator[Step]:
    """Draw whole trajectories of all questions in one batch, and score them in another. It gives no steps."""
    generated = each_or_error(lambda part: _generated(models, part, seed), wanted)
    alive: list[OpenQuestion] = []
    for (question, _), found in zip(wanted, generated, strict=True):
        if isinstance(found, PrmcalError):
            failed[question.number] = found
        else:
            question.drawn += [
                Drawn(split_steps(each.text), each.tokens, each.finish_reason) for each in found
            ]
            alive.append(question)
    scored = each_or_error(lambda part: _score(models, part, calibrated), alive)
    for question, result in zip(alive, scored, strict=True):
        if isinstance(result, PrmcalError):
            failed[question.number] = result
    yield from ()


def _generated(
    models: Answerer, wanted: Sequence[tuple[OpenQuestion, int]], seed: int
) -> list[list[Completion]]:
    requests = [
        GenerationRequest(Prefix(question.text), 1, question.seed(seed, len(question.drawn) + place))
        for question, count in wanted
        for place in range(count)
    ]
    completions = iter(models.generate(requests))
    return [[next(completions)[0] for _ in range(count)] for _, count in wanted]


def _score(models: Answerer, questions: Sequence[OpenQuestion], calibrated: bool) -> list[None]:
    """Score the trajectories that have no scores yet."""
    new = [
        (question, drawn) for question in questions for drawn in question.drawn if not len(drawn.step_scores)
    ]
    items = [(question.text, drawn.steps) for question, drawn in new]
    if calibrated:
        for (question, drawn), rewarded in zip(new, models.rewards(items), strict=True):
            drawn.rewarded, drawn.step_scores = rewarded, rewarded.logit
            question.prm_tokens += rewarded.tokens
    else:
        for (question, drawn), scores in zip(new, models.rewarder.scores(items), strict=True):
            drawn.step_scores = np.asarray(scores.logit, dtype=np.float64)
            question.prm_tokens += scores.tokens
    return [None] * len(questions)


@dataclass(eq=False)
class _Growing:
    """A trajectory that is generated step by step."""

    question: OpenQuestion
    place: int
    steps: tuple[str, ...] = ()
    tokens: int = 0
    sampled: int = 0
    finish_reason: str = ""
    rewarded: Rewarded | None = None

    def lengthen(self, completion: Completion, most_tokens: int) -> int:
        """Append a step. Return how many came: 0 or 1, or more if the LLM ran over the end of a step."""
        added = split_steps(completion.text)
        self.steps += added
        self.tokens += completion.tokens
        self.sampled += 1
        if completion.finish_reason != "stop":
            self.finish_reason = completion.finish_reason
        elif extract_answer(join_steps(added)) is not None and not in_thought(join_steps(self.steps)):
            self.finish_reason = "end"
        elif self.tokens >= most_tokens or self.sampled >= _MOST_STEPS:
            self.finish_reason = "length"
        return len(added)


def draw_by_steps(
    models: Answerer, wanted: Sequence[tuple[OpenQuestion, int]], seed: int, calibrated: bool, failed: Failed
) -> Iterator[Step]:
    """Draw trajectories step by step, and give each step with its rewards. All of them have calibrated rewards.

    A trajectory ends with the first step that has a final answer, as in a search.
    """
    growing = [
        _Growing(question, len(question.drawn) + place)
        for question, count in wanted
        for place in range(count)
    ]
    going = growing
    try:
        while going:
            requests = [
                GenerationRequest(
                    Prefix(each.question.text, each.steps),
                    1,
                    each.question.seed(seed, each.place, each.sampled),
                )
                for each in going
            ]
            completions = models.next_steps(requests)
            added = [
                each.lengthen(completion[0], models.sampling.max_tokens)
                for each, completion in zip(going, completions, strict=True)
            ]
            rewarded = models.rewards([(each.question.text, each.steps) for each in going])
            for each, found, count in zip(going, rewarded, added, strict=True):
                each.rewarded = found
                each.question.prm_tokens += found.tokens
                for t in range(len(each.steps) - count + 1, len(each.steps) + 1):
                    yield step_of(each.place, t, each.steps, found, models.rewarder.levels)
            going = [each for each in going if not each.finish_reason]
    except PrmcalError as error:
        failed |= {each.question.number: error for each in growing}
        return
    for each in growing:
        assert each.rewarded is not None
        each.question.drawn.append(
            Drawn(each.steps, each.tokens, each.finish_reason, each.rewarded.logit, each.rewarded)
        )


def step_of(
    trajectory: int, t: int, steps: Sequence[str], rewarded: Rewarded, levels: tuple[float, ...]
) -> Step:
    """Return the prefix with t of the steps as plain data."""
    text = steps[t - 1] if t else ""
    terminal = t >= first_terminal(steps[:t])
    logit = float(rewarded.logit[t])
    if np.isnan(logit):
        return Step(trajectory, t, text, None, None, None, terminal)
    quantiles = tuple(map(float, rewarded.quantiles[t]))
    return Step(
        trajectory, t, text, float(expit(logit)), quantiles, quantiles[median_place(levels)], terminal
    )
