"""A PRM with a fitted calibrator, and the LLM that it was fitted for: ``prmcal.load`` returns it."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.inference.asking import asking_of, check_question, check_steps, reward_level
from prmcal.harness.inference.calibration_questions import familiarity_of
from prmcal.harness.inference.models import Answerer, each_or_error
from prmcal.harness.inference.results import Familiarity, PrefixRewards, Solution, Step
from prmcal.harness.inference.solving import solve
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.strategies.scaling import adaptive_samples

if TYPE_CHECKING:
    from prmcal.registry.prms.transformers import TransformersPRM

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Make one call for all items that wait. A call starts at once if none is in progress, so no timer is needed.

    `call` takes at most `most` items and returns a result or an error for each.
    """

    def __init__(self, call: Callable[[Sequence[T]], list[R | PrmcalError]], most: int = 256) -> None:
        self._call = call
        self.most = most
        self._waiting: deque[tuple[T, asyncio.Future[R | PrmcalError]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[R | PrmcalError]:
        """Return the result or the error of each item."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[R | PrmcalError]] = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if futures and (self._worker is None or self._worker.done() or self._worker.get_loop() is not loop):
            self._worker = loop.create_task(self._work())
        return await asyncio.gather(*futures)

    async def _work(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self.most))]
            # A client that went away has cancelled its futures.
            taken = [(item, future) for item, future in taken if not future.done()]
            try:
                found = await asyncio.to_thread(self._call, [item for item, _ in taken])
            except Exception as error:
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in zip(taken, found, strict=True):
                    if not future.done():
                        future.set_result(result)


class CalibratedPRM:
    """A calibrated PRM in use. ``prmcal.load`` returns it.

    Models are loaded at the first use, once, and `close` gives their memory back. It may be used from several threads
    and from asynchronous code: one call of a model runs at a time.

    Attributes
    ----------
    name : str
        The cell, such as ``#12 calibration/weak/qwen/isotonic/math``, or the folder.
    chosen_by : str
        The rule by which the cell was chosen, as a sentence; empty if it was asked for.
    llm, prm, calibrator : str
        Their names in the grid. `llm` is empty if it was loaded without one. Then it only scores.
    levels : tuple of float
        The levels beta of the calibrated rewards, ascending. One level, 0.5, is a point estimate.
    defaults : Card
        The strategy and its settings where a call does not name others, among others.
    waiting : Together
        The trajectories that wait for `ascore_many`, of which at most ``waiting.most`` are scored together.

    Examples
    --------
    >>> import prmcal
    >>> with prmcal.load("runs/demo") as prm:  # doctest: +SKIP
    ...     print(prm.solve("What is 6 times 7?").answer)
    """

    def __init__(self, models: Answerer, name: str, chosen_by: str = "") -> None:
        self.name, self.chosen_by = name, chosen_by
        self.defaults = card = models.card
        self.llm = "" if card.llm is None else card.llm.name
        self.prm, self.calibrator = card.prm.name, card.calibrator.name
        self.levels = models.levels
        self._models = models
        self.waiting: Together[tuple[str, Sequence[str]], PrefixRewards] = Together(self.score_each)

    def __repr__(self) -> str:
        llm = f" for {self.llm}" if self.llm else ""
        return f"{self.prm} calibrated by {self.calibrator}{llm} ({self.name})"

    @property
    def form(self) -> "TransformersPRM | None":
        """The PRM that has the texts and the outputs of the served one; None if there is none on transformers."""
        from prmcal.registry.prms.transformers import TransformersPRM

        prm = self._models.prm
        form = getattr(prm, "form", prm)
        return form if isinstance(form, TransformersPRM) else None

    def prompt_tokens(self, question: str) -> int:
        """Return the number of tokens of the LLM's prompt, or of its words. Raise PrmcalError if there is no LLM."""
        with self._models.models.lock, plugin_guard("llm", self.llm, "count tokens"):
            llm = self._models.llm
            return llm.count_tokens(llm.prompt(question) or question)

    def score(self, question: str, steps: Sequence[str] = ()) -> PrefixRewards:
        """Score all prefixes of one trajectory, with their uncalibrated rewards.

        Raises a PrmcalError if the question or a step is no text or empty, or the PRM fails.

        Parameters
        ----------
        question : str
        steps : sequence of str
            The steps x_1..x_T.

        Returns
        -------
        PrefixRewards
            T + 1 rewards. The first is of the bare question.
        """
        return self.score_many([(question, steps)])[0]

    def score_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """Score all prefixes of several trajectories together; see :meth:`score`. The first error is raised."""
        return _without_errors(self.score_each(items))

    def score_each(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards | PrmcalError]:
        """Score all prefixes of several trajectories together. One that fails has an error in its place."""

        def score(part: list[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
            checked = [(check_question(question), check_steps(steps)) for question, steps in part]
            rewards = self._models.rewards(checked)
            return [
                self._models.result(each, steps) for each, (_, steps) in zip(rewards, checked, strict=True)
            ]

        return each_or_error(score, items)

    def samples(self, question: str, *, target: float = 0.99, level: float | None = None) -> int:
        """Return ceil(N_IAS): with so many samples, at least one is right with probability C (Proposition 1).

        Raises a PrmcalError if `target` or `level` is not possible, or the question is too long for the PRM.

        Parameters
        ----------
        question : str
        target : float
            C, in (0, 1).
        level : float, optional
            The level beta of the reward of the bare question. The default is that of the cell, or the lowest one.

        Returns
        -------
        int
            At least 1, and at most 92,099 for C = .9999: rewards are clipped to [1e-4, 1 - 1e-4].
        """
        if not 0 < target < 1:
            raise PrmcalError(f"'target' must be a number in (0, 1). Got {target} instead.")
        return self.samples_of(self.score(question), target, level)

    def samples_of(self, rewards: PrefixRewards, target: float = 0.99, level: float | None = None) -> int:
        """As :meth:`samples`, for the question of a trajectory that is scored, and a target that is possible."""
        quantiles = rewards.quantiles[0]
        if quantiles is None:
            raise PrmcalError("The question is too long for the PRM.")
        own = reward_level(self._models, self.defaults.level if level is None else level)
        reward = quantiles[self.levels.index(own)]
        return int(adaptive_samples([reward], target, 10**9)[0])

    def solve(
        self, question: str, *, on_step: Callable[[Step], None] | None = None, **settings: Any
    ) -> Solution:
        """Answer a question.

        Raises a PrmcalError if a setting is not possible, or the question cannot be answered.

        Parameters
        ----------
        question : str
        target : float, optional
            The target probability C, in (0, 1), of a strategy that has one.
        level : float, optional
            The level beta of a strategy that reads rewards at one level, such as ``best-of-n + IAS``.
        max_samples : int, optional
            The largest number of samples.
        mean_samples : float, optional
            The most samples of a question on average, for ``safe choice``.
        abstain_below : float, optional
            An answer is withheld if its probability is lower.
        strategy : str, optional
            A strategy of the grid, or a registered one. The default is that of the cell, or ``safe choice``; with a
            `target`, it is ``posterior vote``.
        seed : int
            Another seed gives other samples.
        on_step : callable, optional
            Takes each :class:`Step` as soon as it is generated. Trajectories are then generated step by step.
        """
        if on_step is None:
            (solution,) = self.solve_many([question], **settings)
        else:
            for event in self.stream(question, **settings):
                if isinstance(event, Step):
                    on_step(event)
                else:
                    solution = event
        if solution.error:
            raise PrmcalError(solution.error)
        return solution

    def solve_many(
        self,
        questions: Sequence[str],
        references: Sequence[str | None] = (),
        *,
        on_solution: Callable[[int, Solution], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        **settings: Any,
    ) -> list[Solution]:
        """Answer questions together, which is much faster than one after the other.

        Raises a PrmcalError if a setting is not possible, or there is not one reference for each question.

        Parameters
        ----------
        questions : sequence of str
        references : sequence of str or None, optional
            The right answers as far as they are known, for `correct` and for the alarm.
        target, level, max_samples, mean_samples, abstain_below, strategy, seed
            As for :meth:`solve`.
        on_solution : callable, optional
            Takes the place of a question and its solution, as soon as it is there. Easy questions come first.
        stopped : callable, optional
            Returns True once nobody waits for the solutions. Then no more samples are drawn.

        Returns
        -------
        list of Solution
            In the order of the questions. One that fails has an `error`. The others are not affected.
        """
        if references and len(references) != len(questions):
            raise PrmcalError(f"There are {len(questions)} questions and {len(references)} references.")
        asking = asking_of(self._models, settings)
        found: dict[int, Solution] = {}
        for event in solve(self._models, asking, questions, references, stopped=stopped):
            if not isinstance(event, Step):
                number, solution = event
                found[number] = solution
                if on_solution is not None:
                    on_solution(number, solution)
        ended = "It was stopped before it had an answer."
        return [found.get(number, Solution(each, error=ended)) for number, each in enumerate(questions)]

    def stream(
        self, question: str, *, reference: str | None = None, **settings: Any
    ) -> Generator[Step | Solution]:
        """Answer a question with the settings of :meth:`solve`, and give every step as soon as it is generated.

        Trajectories are generated step by step. So their texts differ from those of :meth:`solve` with the same seed. A
        beam search gives no steps. `reference` is the right answer, if it is known, for `correct` and for the alarm.

        Raises a PrmcalError if a setting is not possible.

        Yields
        ------
        Step or Solution
            The bare question first, then the steps, and the solution last. It has an `error` if the question failed.
        """
        asking = asking_of(self._models, settings)
        for event in solve(self._models, asking, [question], [reference], by_steps=True):
            yield event if isinstance(event, Step) else event[1]

    def familiarity(self, question: str) -> Familiarity:
        """Return whether a question is like the calibration questions, as far as it shows before it is answered."""
        (bare,) = self._models.rewards([(check_question(question), ())])
        return familiarity_of(self._models.calibration, question, float(bare.logit[0]), np.empty(0))

    def new_alarm(self) -> ShiftAlarm | None:
        """Return an alarm that has seen no question yet; None if the calibration questions are not known."""
        known = self._models.calibration
        return None if known is None else known.alarm()

    @property
    def alarm(self) -> str:
        """The sentences of the alarm over all questions that were answered here; empty if there is none."""
        return "" if self._models.alarm is None else self._models.alarm.message

    async def ascore_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """As :meth:`score_many`, without blocking the event loop. Calls that wait are made together."""
        return _without_errors(await self.waiting.ask(items))

    async def asolve(self, question: str, *, reference: str | None = None, **settings: Any) -> Solution:
        """As :meth:`solve`, without blocking the event loop. No more samples are drawn once it is cancelled.

        `reference` is the right answer, if it is known. Raises a PluginFailedError if the question fails.
        """
        stop, asked = threading.Event(), ([question], [reference])
        try:
            (found,) = await asyncio.to_thread(self.solve_many, *asked, stopped=stop.is_set, **settings)
        finally:
            stop.set()
        if found.error:
            raise PluginFailedError(found.error)
        return found

    async def astream(self, question: str, **settings: Any) -> AsyncIterator[Step | Solution]:
        """As :meth:`stream`, without blocking the event loop. It stops to generate when nobody reads any more."""
        events = self.stream(question, **settings)
        lock = threading.Lock()

        def locked(call: Callable[[], R]) -> R:
            with lock:
                return call()

        try:
            while event := await asyncio.to_thread(locked, lambda: next(events, None)):
                yield event
        finally:
            asyncio.get_running_loop().run_in_executor(None, locked, events.close)

    def save(self, folder: str | Path) -> Path:
        """Write everything but the models' weights to a folder that ``prmcal.load`` reads. Return its path.

        The folder has the fitted calibrator, the names of the models, the sampling, and the scores and grades of the
        calibration questions, without any text of them.

        Raises a PrmcalError if the folder is not empty, or this was loaded from an exported checkpoint or an adapter.
        """
        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise PrmcalError(f"{target} already exists. Choose a new or an empty folder.")
        self._models.save(target)
        return target

    def close(self) -> None:
        """Unload the models and free their memory. They are loaded again at the next use."""
        self._models.models.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _without_errors(found: Sequence[PrefixRewards | PrmcalError]) -> list[PrefixRewards]:
    for each in found:
        if isinstance(each, PrmcalError):
            raise each
    return [each for each in found if isinstance(each, PrefixRewards)]
