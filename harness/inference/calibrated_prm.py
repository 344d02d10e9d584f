"""A calibrated PRM in use, with the LLM that it was calibrated for: ``prmcal.load`` returns it.

It answers questions as the run does: it draws samples until the strategy needs no more, and lets it choose one of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.inference.results import PrefixRewards, Solution, Trajectory
from prmcal.harness.inference.scoring import QuestionAndSteps, Scorer
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.stepping import stored_completions
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.data import GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.contracts.results import require
from prmcal.registry.contracts.strategy import Allowance, PoolStrategy, Strategy
from prmcal.registry.grading.extraction import Ways, find_answer
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.safe_choice import SafeChoice
from prmcal.steps import join_steps, split_steps


@dataclass(eq=False, repr=False)
class CalibratedPRM:
    """A calibrated PRM in use. ``prmcal.load`` returns it.

    Models are loaded once, at their first use, and `close` frees their memory. Several threads may use it: one call of
    a model runs at a time.

    Examples
    --------
    >>> import prmcal
    >>> with prmcal.load("runs/demo") as prm:  # doctest: +SKIP
    ...     print(prm.score("What is 6 times 7?", ["6 * 7 = 42."]).point)
    ...     print(prm.answer("What is 6 times 7?").answer)
    """

    name: str
    """The cell, such as ``#12 calibration/weak/qwen/isotonic/math``."""
    chosen_by: str
    """The rule that chose it, as a sentence; empty if the caller named all parts."""
    scorer: Scorer
    """The PRM and its calibrator."""
    llm: PluginReference
    sampling: Sampling
    """The sampling of trajectories, the same as for the calibration."""
    ways: Ways
    """The places of the answers in the texts of the LLM."""
    strategy: PluginReference
    allowance: Allowance
    """The strategy that answers questions, and its allowance: the largest number of samples, and a target C."""
    level: float | None
    """The level beta of the rewards that the strategy reads."""
    calibration: Callable[[Sequence[Reads]], Pool]
    """Returns the graded trajectories of the calibration questions with the arrays that a strategy reads."""
    _tuned: dict[int, PoolStrategy] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.scorer}, for {self.llm.name} ({self.name})"

    def score(self, question: str, steps: Sequence[str] = ()) -> PrefixRewards:
        """Score the bare question and the prefixes that end with each of the steps x_1..x_T.

        The T + 1 rewards are calibrated and uncalibrated. Raises a PrmcalError if the question or a step is no text or
        empty, or the PRM fails.
        """
        return self.score_many([(question, steps)])[0]

    def score_many(self, items: Sequence[QuestionAndSteps]) -> list[PrefixRewards]:
        """Score all prefixes of several trajectories together, which is faster; see :meth:`score`."""
        return self.scorer.rewards(items)

    def answer(self, question: str, *, max_samples: int | None = None, seed: int = 0) -> Solution:
        """Answer a question by the rule of the run.

        Raises a PrmcalError if the strategy cannot answer new questions, the question is empty or too long, or a model
        fails.

        Parameters
        ----------
        question : str
        max_samples : int, optional
            The largest number of samples; by default the grid's.
        seed : int
            Another seed gives other samples.
        """
        begun, allowance = time.monotonic(), self.allowance
        if max_samples is not None:
            allowance = replace(allowance, samples=max_samples)
        strategy = self._strategy(allowance)
        (bare,) = self.scorer.rewards([(question, ())])
        if bare.point[0] is None:
            raise PrmcalError(
                f"The question is too long for the PRM '{self.scorer.prm.name}'. It has {len(question):,} characters."
            )
        trajectories, chosen = self._sample(question, strategy, allowance, seed, bare)
        best = trajectories[chosen]
        probability, low, high = (None, None, None) if best.answer is None else best.rewards.before_answer
        return Solution(
            question=question,
            answer=best.answer,
            probability=probability,
            low=low,
            high=high,
            reason=self._reason(strategy, allowance, len(trajectories)),
            samples=len(trajectories),
            generated_tokens=sum(trajectory.tokens for trajectory in trajectories),
            seconds=time.monotonic() - begun,
            trajectories=tuple(trajectories),
            chosen=chosen,
        )

    def _strategy(self, allowance: Allowance) -> PoolStrategy:
        if allowance.samples not in self._tuned:
            name = self.strategy.name
            built: Strategy = self.strategy.build(strategies)
            if built.reference or "success" in built.reads:
                raise PrmcalError(
                    f"The strategy '{name}' is a reference: it uses facts that nobody knows of a new question. Choose "
                    "the cell of another strategy."
                )
            if not isinstance(built, PoolStrategy):
                raise PrmcalError(
                    f"The strategy '{name}' searches step by step, but new questions are answered with whole samples. "
                    "Choose the cell of another strategy."
                )
            if built.tuned:
                with plugin_guard("strategy", name, "be tuned"):
                    built.tune(self.calibration(built.reads), allowance)
            self._tuned[allowance.samples] = built
        return self._tuned[allowance.samples]

    def _sample(
        self, question: str, strategy: PoolStrategy, allowance: Allowance, seed: int, bare: PrefixRewards
    ) -> tuple[list[Trajectory], int]:
        """Draw whole samples until the strategy needs no more, and return them with the index of its choice."""
        name, limit = self.strategy.name, allowance.samples
        trajectories: list[Trajectory] = []
        while True:
            pool, counts = _pool(bare, trajectories, limit, self.level), np.array([len(trajectories)], dtype=np.int64)
            with plugin_guard("strategy", name, "decide"):
                needed = np.asarray(strategy.needed(pool, counts, allowance))
                require(needed.shape == (1,) and needed[0] >= 1, "'needed' must return an int of at least 1.")
            new_numbers = range(len(trajectories), min(int(needed[0]), limit))
            if not new_numbers:
                break
            trajectories += self._draw(question, new_numbers, seed)
        with plugin_guard("strategy", name, "choose an answer"):
            chosen = strategy.choose(_pool(bare, trajectories, len(trajectories), self.level), allowance)
            fits = isinstance(chosen, int) and 0 <= chosen < len(trajectories)
            require(fits, f"'choose' must return the index of one of {len(trajectories)} trajectories.")
        return trajectories, chosen

    def _draw(self, question: str, numbers: range, seed: int) -> list[Trajectory]:
        """Draw whole samples and score them. The seed of each sample follows from its number."""
        prefix = Prefix(question)
        seeds = [seed_from_key(content_key(["ask", seed, question, number])) for number in numbers]
        requests = [GenerationRequest(prefix, 1, request_seed) for request_seed in seeds]
        with self.scorer.models.lock, plugin_guard("llm", self.llm.name, "generate"):
            llm = self.scorer.models.llm(self.llm, beside=True)
            completions = llm.generate_batch(requests, self.sampling)
            samples = [sample for (sample,) in stored_completions(llm, requests, completions)]
        solutions = [split_steps(sample.text) for sample in samples]
        rewards = self.scorer.rewards([(question, solution) for solution in solutions])
        texts = [join_steps(solution) for solution in solutions]
        answers = [find_answer(text, self.ways) for text in texts]
        return [
            Trajectory(text, answer and answer.text, sample.tokens, sample.finish_reason, reward)
            for text, answer, sample, reward in zip(texts, answers, samples, rewards, strict=True)
        ]

    def _reason(self, strategy: PoolStrategy, allowance: Allowance, samples: int) -> str:
        drew = f"drew {counted(samples, 'sample')}"
        if isinstance(strategy, SafeChoice):
            return f"The safe choice is '{strategy.chosen_rule(allowance).text}', which {drew}."
        target = "" if allowance.target is None else f" (target {allowance.target:g})"
        limit = ", the most that it may draw" if samples == allowance.samples > 1 else ""
        return f"The strategy '{self.strategy.name}'{target} {drew}{limit}."

    def close(self) -> None:
        """Unload the models and free their memory. They are loaded again at the next use."""
        self.scorer.models.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _pool(bare: PrefixRewards, trajectories: Sequence[Trajectory], size: int, level: float | None) -> Pool:
    """Return the trajectories of one question as a strategy reads them; see :meth:`prmcal.PoolStrategy.needed`.

    The pool has `size` trajectories. Those that are not drawn have no answer, and NaN. `level` is the level beta of the
    rewards.
    """
    longest = max((len(trajectory.rewards.point) for trajectory in trajectories), default=1)
    answers = np.full((1, size), -1, dtype=np.int64)
    scores, step_scores = np.full((1, size), np.nan), np.full((1, size, longest), np.nan)
    numbers: dict[str, int] = {}
    for place, trajectory in enumerate(trajectories):
        if trajectory.answer is not None:
            answers[0, place] = numbers.setdefault(trajectory.answer, len(numbers))
        log_odds = np.array(trajectory.rewards.log_odds, np.float64)
        scores[0, place] = log_odds[-1]
        step_scores[0, place, : len(log_odds)] = log_odds
    level_index = 0 if level is None else int(np.argmin(np.abs(np.array(bare.levels) - level)))
    of_question = bare.quantiles[0]
    rewards = np.array([np.nan if of_question is None else of_question[level_index]])
    unknown = np.zeros((1, size), dtype=np.bool_)
    return Pool(unknown, answers, scores=scores, rewards=rewards, step_scores=step_scores)
