"""A PRM with a fitted calibrator, and the LLM that it was fitted for: ``prmcal.load`` returns it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import numpy as np

from prmcal.errors import PrmcalError
from prmcal.harness.inference.asking import (
    Asking,
    Defaults,
    Settings,
    asking_of,
    check_question,
    check_steps,
    reward_level,
)
from prmcal.harness.inference.calibration_questions import familiarity_of
from prmcal.harness.inference.drawing import draw_by_steps
from prmcal.harness.inference.models import Answerer, each_or_error
from prmcal.harness.inference.results import Familiarity, PrefixRewards, Solution, Step
from prmcal.harness.inference.solving import search, solve
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.strategies.scaling import adaptive_samples

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Make one call for all items that wait. A call starts at once if none is in progress, so no timer is needed.

    Parameters
    ----------
    call : callable
        Takes some items and returns a result or an error for each.
    most : int
        The largest number of items in a call.
    """

    def __init__(self, call: Callable[[Sequence[T]], list[R | PrmcalError]], most: int = 256) -> None:
        self._call = call
        self._most = most
        self._waiting: deque[tuple[T, asyncio.Future[R | PrmcalError]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[R | PrmcalError]:
        """Return the result or the error of each item."""
        loop = asyncio.get_running_loop()
        futures = []
        for item in items:
            future: asyncio.Future[R | PrmcalError] = loop.create_future()
            self._waiting.append((item, future))
            futures.append(future)
        if futures and (self._worker is None or self._worker.done() or self._worker.get_loop() is not loop):
            self._worker = loop.create_task(self._work())
        return [await future for future in futures]

    async def _work(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), self._most)
            taken = [self._waiting.popleft() for _ in range(count)]
            # A client that went away has cancelled its futures.
            taken = [(item, future) for item, future in taken if not future.done()]
            if not taken:
                continue
            try:
                found = await asyncio.to_thread(self._call, [item for item, _ in taken])
            except BaseException as error:
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, future), result in zip(taken, found, strict=True):
                if not future.done():
                    future.set_result(result)


_END = object()


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
    defaults : Defaults
        The strategy and its settings where a call does not name others.

    Examples
    --------
    >>> import prmcal
    >>> with prmcal.load("runs/demo") as prm:  # doctest: +SKIP
    ...     print(prm.solve("What is 6 times 7?").answer)
    """

    def __init__(
        self,
        models: Answerer,
        defaults: Defaults,
        *,
        name: str,
        prm: str,
        calibrator: str,
        chosen_by: str = "",
        save: Callable[[Path], None] | None = None,
    ) -> None:
        self.name = name
        self.chosen_by = chosen_by
        self.llm = models.llm_name
        self.prm = prm
        self.calibrator = calibrator
        self.levels = models.rewarder.levels
        self.defaults = defaults
        self._models = models
        self._save = save
        self._waiting: Together[tuple[str, Sequence[str]], PrefixRewards] = Together(self.score_each)

    def __repr__(self) -> str:
        llm = f" for {self.llm}" if self.llm else ""
        return f"{self.prm} calibrated by {self.calibrator}{llm} ({self.name})"

    def score(self, question: str, steps: Sequence[str] = ()) -> PrefixRewards:
        """Score all prefixes of one trajectory, in one pass with their uncalibrated rewards.

        Parameters
        ----------
        question : str
        steps : sequence of str
            The steps x_1..x_T.

        Returns
        -------
        PrefixRewards
            T + 1 rewards. The first is of the bare question.

        Raises
        ------
        PrmcalError
            If the question or a step is no text or empty, or the PRM fails.
        """
        return self.score_many([(question, steps)])[0]

    def score_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """Score all prefixes of several trajectories together; see :meth:`score`.

        Raises
        ------
        PrmcalError
            If one of them cannot be scored.
        """
        return _without_errors(self.score_each(items))

    def score_each(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards | PrmcalError]:
        """Score all prefixes of several trajectories together. One that fails has an error in its place."""
        results: list[PrefixRewards | PrmcalError | None] = [None] * len(items)
        valid: list[tuple[int, tuple[str, tuple[str, ...]]]] = []
        for place, (question, steps) in enumerate(items):
            try:
                valid.append((place, (check_question(question), check_steps(steps))))
            except PrmcalError as error:
                results[place] = error
        found = each_or_error(lambda part: self._models.rewards([item for _, item in part]), valid)
        merged = self._models.rewarder.calibrator is None
        for (place, (_, steps)), each in zip(valid, found, strict=True):
            results[place] = (
                each if isinstance(each, PrmcalError) else each.result(self.levels, steps, merged)
            )
        return [each for each in results if each is not None]

    def samples(self, question: str, *, target: float = 0.99, level: float | None = None) -> int:
        """Return ceil(N_IAS): with so many samples, at least one is right with probability C (Proposition 1).

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

        Raises
        ------
        PrmcalError
            If `target` or `level` is not possible, or the question is too long for the PRM.
        """
        if not 0 < target < 1:
            raise PrmcalError(f"'target' must be a number in (0, 1). Got {target} instead.")
        rewards = self.score(question)
        if rewards.quantiles[0] is None:
            raise PrmcalError("The question is too long for the PRM.")
        own_level = reward_level(self._models, self.defaults.level if level is None else level)
        place = self.levels.index(own_level) if own_level in self.levels else 0
        reward = rewards.quantiles[0][place]
        return int(adaptive_samples([reward], target, 10**9)[0])

    def solve(
        self,
        question: str,
        *,
        on_step: Callable[[Step], None] | None = None,
        **how: Unpack[Settings],
    ) -> Solution:
        """Answer a question.

        Parameters
        ----------
        question : str
        target : float, optional
            The target probability C, in (0, 1), of a strategy that has one.
        level : float, optional
            The level beta of a strategy that reads rewards at one level, such as ``best-of-n + IAS``.
        max_samples : int, optional
            The largest number of samples.
        abstain_below : float, optional
            An answer is withheld if its probability is lower.
        strategy : str, optional
            A strategy of the grid, or a registered one. The default is that of the cell, or ``posterior vote``.
        seed : int
            Another seed gives other samples.
        on_step : callable, optional
            Takes each :class:`Step` as soon as it is generated. Trajectories are then generated step by step.

        Returns
        -------
        Solution

        Raises
        ------
        PrmcalError
            If a setting is not possible, or the question cannot be answered.
        """
        if on_step is None:
            (solution,) = self.solve_many([question], **how)
        else:
            for event in self.stream(question, **how):
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
        *,
        on_solution: Callable[[int, Solution], None] | None = None,
        **how: Unpack[Settings],
    ) -> list[Solution]:
        """Answer questions together, which is much faster than one after the other.

        Parameters
        ----------
        questions : sequence of str
        target, level, max_samples, abstain_below, strategy, seed
            As for :meth:`solve`.
        on_solution : callable, optional
            Takes the place of a question and its solution, as soon as it is there. Easy questions come first.

        Returns
        -------
        list of Solution
            In the order of the questions. One that fails has an `error`. The others are not affected.

        Raises
        ------
        PrmcalError
            If a setting is not possible.
        """
        asking = asking_of(self._models, self.defaults, how)
        found: dict[int, Solution] = {}
        for event in self._events(asking, questions):
            if not isinstance(event, Step):
                number, solution = event
                found[number] = solution
                if on_solution is not None:
                    on_solution(number, solution)
        return [found[number] for number in range(len(questions))]

    def stream(self, question: str, **how: Unpack[Settings]) -> Iterator[Step | Solution]:
        """Answer a question, and give every step with its rewards as soon as it is generated.

        Trajectories are generated step by step. So their texts differ from those of :meth:`solve` with the same seed. A
        beam search gives no steps.

        Parameters
        ----------
        question
        **how
            The settings of :meth:`solve`.

        Yields
        ------
        Step or Solution
            The bare question first, then the steps, and the solution last. It has an `error` if the question failed.

        Raises
        ------
        PrmcalError
            If a setting is not possible.
        """
        asking = asking_of(self._models, self.defaults, how)
        for event in self._events(asking, [question], by_steps=True):
            yield event if isinstance(event, Step) else event[1]

    def familiarity(self, question: str) -> Familiarity:
        """Return whether a question is like the calibration questions, as far as it shows before it is answered."""
        (bare,) = self._models.rewards([(check_question(question), ())])
        return familiarity_of(self._models.calibration, question, float(bare.logit[0]), np.empty(0))

    async def ascore_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """As :meth:`score_many`, without blocking the event loop. Calls that wait are made together."""
        return _without_errors(await self.ascore_each(items))

    async def ascore_each(
        self, items: Sequence[tuple[str, Sequence[str]]]
    ) -> list[PrefixRewards | PrmcalError]:
        """As :meth:`score_each`, without blocking the event loop. Calls that wait are made together."""
        return await self._waiting.ask(items)

    async def asolve(self, question: str, **how: Unpack[Settings]) -> Solution:
        """As :meth:`solve`, without blocking the event loop."""
        return await asyncio.to_thread(self.solve, question, **how)

    async def astream(self, question: str, **how: Unpack[Settings]) -> AsyncIterator[Step | Solution]:
        """As :meth:`stream`, without blocking the event loop. It stops to generate when nobody reads any more."""
        events = self.stream(question, **how)
        lock = threading.Lock()

        def following() -> Any:
            with lock:
                return next(events, _END)

        def end() -> None:
            with lock:
                events.close()  # type: ignore[attr-defined]

        try:
            while (event := await asyncio.to_thread(following)) is not _END:
                yield event
        finally:
            await asyncio.shield(asyncio.to_thread(end))

    def save(self, folder: str | Path) -> Path:
        """Write everything but the models' weights to a folder that ``prmcal.load`` reads. Return its path.

        The folder has the fitted calibrator, the names of the models, the sampling, and the scores and grades of the
        calibration questions, without any text of them.

        Raises
        ------
        PrmcalError
            If the folder is not empty, or this was loaded from an exported checkpoint or an adapter.
        """
        target = Path(folder)
        if self._save is None:
            raise PrmcalError("Only a calibrated PRM of a run can be saved.")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise PrmcalError(f"{target} already exists. Choose a new or an empty folder.")
        self._save(target)
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

    def _events(
        self, asking: Asking, questions: Sequence[str], by_steps: bool = False
    ) -> Iterator[Step | tuple[int, Solution]]:
        if isinstance(asking.strategy, SearchStrategy):
            return search(self._models, asking, questions)
        if by_steps:
            return solve(self._models, asking, questions, draw_by_steps)
        return solve(self._models, asking, questions)


def _without_errors(found: Sequence[PrefixRewards | PrmcalError]) -> list[PrefixRewards]:
    """Return the rewards. Raise the first error if there is one."""
    for each in found:
        if isinstance(each, PrmcalError):
            raise each
    return [each for each in found if isinstance(each, PrefixRewards)]
