"""Open questions, and the trajectories that are drawn for them: whole ones, step by step, or by a search."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from prmcal.arrays import Floats, Ints
from prmcal.errors import PrmcalError
from prmcal.harness.inference.asking import Asking, check_question
from prmcal.harness.inference.models import Answerer, Rewarded, each_or_error
from prmcal.harness.inference.results import Spent, Step, Trajectory
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.search import Beam, BeamSearch, Searched, calibrating, lengthened
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.data import GenerationRequest, Prefix, Question
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import SearchStrategy
from prmcal.registry.grading.extraction import MARKED, Ways, find_answer
from prmcal.steps import join_steps, split_steps

R = TypeVar("R")

_UNREAD = Rewarded(np.empty(0), np.empty((0, 0)))
_MOST_STEPS = 1000


@dataclass(eq=False)
class Drawn:
    """One trajectory: its steps, the tokens that were generated, and its rewards once they are computed."""

    steps: tuple[str, ...]
    tokens: int
    finish_reason: str
    rewarded: Rewarded = _UNREAD
    ways: Ways = MARKED

    @property
    def answer(self) -> str | None:
        """The final answer, or None."""
        found = find_answer(join_steps(self.steps), self.ways)
        return found and found.text

    @property
    def score(self) -> float:
        """The PRM's log-odds of the whole trajectory; NaN if it is too long for the PRM."""
        return float(self.rewarded.logit[-1])

    def result(self) -> Trajectory:
        """Return it as plain data."""
        score = None if np.isnan(self.score) else self.score
        return Trajectory(join_steps(self.steps), self.answer, score, self.tokens, self.finish_reason)


@dataclass(eq=False)
class OpenQuestion:
    """A question that is not answered yet."""

    number: int
    """Its place among the questions of the call."""
    text: str
    reference: str | None = None
    """Its right answer, if that is known. It never changes the answer that is given."""
    place: int | None = None
    """Its place in the alarm; None without an alarm."""
    bare: Rewarded = _UNREAD
    """The rewards of the bare question."""
    drawn: list[Drawn] = field(default_factory=list)
    needed: int = 1
    """The number of trajectories that it needs before the next decision."""
    samples: int = 0
    """Trajectories that were drawn, or steps that a search sampled."""
    generated_tokens: int = 0
    prm_tokens: int = 0
    started: float = field(default_factory=time.monotonic)
    """On the clock of ``time.monotonic``."""
    error: PrmcalError | None = None
    """The reason why it cannot be answered."""

    def seed(self, seed: int, *place: int) -> int:
        """Return the seed of a sample, which does not depend on the other questions of the call."""
        return seed_from_key(content_key(["ask", seed, self.text, *place]))

    def add(self, drawn: Drawn) -> None:
        """Add a trajectory that was drawn."""
        self.drawn.append(drawn)
        self.samples += 1
        self.generated_tokens += drawn.tokens

    @property
    def missing(self) -> range:
        """The places of the trajectories that are still to be drawn."""
        return range(len(self.drawn), self.needed)

    @property
    def answers(self) -> Ints:
        """The answers as numbers in the order of their first appearance; -1 for none. Equal texts are equal."""
        numbers: dict[str, int] = {}
        given = [each.answer for each in self.drawn]
        return np.array(
            [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in given], dtype=np.int64
        )

    @property
    def scores(self) -> Floats:
        """The scores of whole trajectories, of shape (drawn,)."""
        return np.array([each.score for each in self.drawn], dtype=np.float64)

    def spent(self) -> Spent:
        """Return what it has cost so far."""
        seconds = time.monotonic() - self.started
        return Spent(self.samples, self.generated_tokens, self.prm_tokens, seconds)


def attempted(
    call: Callable[[list[OpenQuestion]], list[R]], questions: Sequence[OpenQuestion]
) -> Iterator[tuple[OpenQuestion, R]]:
    """Do something for questions together. Yield each with its result, or note the error that it failed with."""
    results: list[R | PrmcalError] = each_or_error(call, questions)
    for each, found in zip(questions, results, strict=True):
        if isinstance(found, PrmcalError):
            each.error = found
        else:
            yield each, found


def open_questions(models: Answerer, questions: Sequence[OpenQuestion]) -> None:
    """Check questions and score them as they are."""

    def score(part: list[OpenQuestion]) -> list[Rewarded]:
        return models.rewards([(check_question(each.text), ()) for each in part])

    for each, bare in attempted(score, questions):
        each.bare, each.prm_tokens = bare, bare.tokens
        if np.isnan(bare.logit[0]):
            most = getattr(models.prm, "max_tokens", "fewer")
            each.error = PrmcalError(
                f"The question is too long for the PRM '{models.card.prm.name}', which reads at most {most} tokens. "
                f"It has {len(each.text):,} characters."
            )


Draw = Callable[[Answerer, Asking, Sequence[OpenQuestion]], Iterator[Step]]
"""Draw the trajectories that questions need, with their rewards. It may give the steps."""


def draw_whole(models: Answerer, asking: Asking, questions: Sequence[OpenQuestion]) -> Iterator[Step]:
    """Draw whole trajectories of all questions in one batch, and score them in another. It gives no steps."""

    def generate(part: list[OpenQuestion]) -> list[list[Drawn]]:
        requests = [
            GenerationRequest(Prefix(each.text), 1, each.seed(asking.seed, place))
            for each in part
            for place in each.missing
        ]
        found = (
            Drawn(split_steps(one.text), one.tokens, one.finish_reason, ways=models.card.ways)
            for (one,) in models.generate(requests)
        )
        return [[next(found) for _ in each.missing] for each in part]

    def score(part: list[OpenQuestion]) -> list[OpenQuestion]:
        new = [(each, drawn) for each in part for drawn in each.drawn if drawn.rewarded is _UNREAD]
        rewards = models.rewards([(each.text, drawn.steps) for each, drawn in new])
        for (each, drawn), rewarded in zip(new, rewards, strict=True):
            drawn.rewarded = rewarded
            each.prm_tokens += rewarded.tokens
        return part

    generated = list(attempted(generate, questions))
    for each, drawn in generated:
        for one in drawn:
            each.add(one)
    list(attempted(score, [each for each, _ in generated]))
    yield from ()


def draw_by_steps(models: Answerer, asking: Asking, questions: Sequence[OpenQuestion]) -> Iterator[Step]:
    """Draw trajectories step by step, and give each step with its rewards.

    A trajectory ends with the first step that has a final answer, as in a search.
    """
    places = [(each, place) for each in questions for place in each.missing]
    beams, rewarded = [Beam()] * len(places), [_UNREAD] * len(places)
    most = models.card.sampling.max_tokens
    try:
        while going := [index for index, beam in enumerate(beams) if not beam.finished]:
            completions = models.next_steps(
                [
                    GenerationRequest(
                        Prefix(each.text, beams[index].steps),
                        1,
                        each.seed(asking.seed, place, beams[index].drawn),
                    )
                    for index in going
                    for each, place in [places[index]]
                ]
            )
            known = [len(beams[index].steps) for index in going]
            for index, (completion,) in zip(going, completions, strict=True):
                beams[index] = lengthened(beams[index], completion, most, _MOST_STEPS, models.card.ways)
            found = models.rewards([(places[index][0].text, beams[index].steps) for index in going])
            for index, count, rewards in zip(going, known, found, strict=True):
                rewarded[index] = rewards
                each, place = places[index]
                each.prm_tokens += rewards.tokens
                yield from steps_of(models, place, beams[index].steps, rewards)[count + 1 :]
    except PrmcalError as error:
        for each, _ in places:
            each.error = error
        return
    for (each, _), beam, rewards in zip(places, beams, rewarded, strict=True):
        reason = "length" if beam.tokens >= most or beam.drawn >= _MOST_STEPS else "end"
        each.add(Drawn(beam.steps, beam.tokens, reason, rewards, models.card.ways))


def steps_of(models: Answerer, trajectory: int, steps: Sequence[str], rewarded: Rewarded) -> list[Step]:
    """Return the prefixes of a trajectory as plain data, the bare question first."""
    found = models.result(rewarded, steps)
    values = zip(("", *steps), found.uncalibrated, found.quantiles, found.point, found.terminal, strict=True)
    return [Step(trajectory, t, *of_prefix) for t, of_prefix in enumerate(values)]


def search(models: Answerer, asking: Asking, questions: Sequence[OpenQuestion]) -> Iterator[Step]:
    """Search all questions together. The trajectories are the prefixes that the search kept. It gives no steps.

    Their rewards were chosen among many, so they tend to be too high. The first one has calibrated rewards.
    """
    strategy = asking.strategy
    assert isinstance(strategy, SearchStrategy)

    def searched(part: list[OpenQuestion]) -> list[tuple[Searched, Rewarded]]:
        # The seeds of a search follow from the id. So the answer does not depend on the other questions.
        asked = [Question(hashlib.sha256(each.text.encode()).hexdigest(), each.text, "") for each in part]
        llm, prm = models.llm, models.prm
        with plugin_guard("strategy", asking.name, "search"), models.models.lock:
            calibrate, card = calibrating(models.calibrator, prm, asking.level), models.card
            target, seed = asking.setting.target, asking.seed
            found = BeamSearch(llm, prm, strategy, calibrate, card.sampling, target, seed, card.ways).run(
                asked
            )
        best = [(each.text, one.answer.steps) for each, one in zip(part, found, strict=True)]
        return list(zip(found, models.rewards(best), strict=True))

    for each, (found, rewarded) in attempted(searched, questions):
        for beam in found.kept:
            own = rewarded if not each.drawn else Rewarded(np.array([beam.logit]), np.empty((1, 0)))
            reason = "end" if beam.finished else "length"
            each.drawn.append(Drawn(beam.steps, beam.tokens, reason, own, models.card.ways))
        each.samples, each.generated_tokens = found.generations, found.generated_tokens
        each.prm_tokens += found.scored_tokens + rewarded.tokens
    yield from ()


def pool_of(
    questions: Sequence[OpenQuestion], size: int, levels: tuple[float, ...], level: float | None
) -> Pool:
    """Return the trajectories of some questions as a strategy reads them; see :meth:`prmcal.PoolStrategy.needed`.

    Each question has `size` trajectories in the pool. Those that are not drawn have no answer, and NaN. `levels` are
    those of the calibrated rewards, and `level` is that of `rewards`.
    """
    shape = len(questions), size
    longest = max((len(drawn.steps) + 1 for each in questions for drawn in each.drawn), default=1)
    answers = np.full(shape, -1, dtype=np.int64)
    scores, step_scores = np.full(shape, np.nan), np.full((*shape, longest), np.nan)
    step_rewards = np.full((*shape, longest, len(levels)), np.nan)
    trajectory_rewards = np.full((*shape, len(levels)), np.nan)
    for row, question in enumerate(questions):
        answers[row, : len(question.drawn)] = question.answers
        scores[row, : len(question.drawn)] = question.scores
        for column, drawn in enumerate(question.drawn):
            rewarded = drawn.rewarded
            step_scores[row, column, : len(rewarded.logit)] = rewarded.logit
            step_rewards[row, column, : len(rewarded.quantiles)] = rewarded.quantiles
            trajectory_rewards[row, column] = rewarded.quantiles[-1]
    bare = np.stack([question.bare.quantiles[0] for question in questions])
    return Pool(
        np.zeros(shape, dtype=np.bool_),
        answers,
        scores=scores,
        rewards=bare[:, 0 if level is None else levels.index(level)],
        step_scores=step_scores,
        question_rewards=bare,
        trajectory_rewards=trajectory_rewards,
        step_rewards=step_rewards,
        levels=levels,
    )
