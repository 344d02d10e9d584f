"""A PRM with a fitted calibrator, and the LLM that it was fitted for: ``prmcal.load`` returns it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from prmcal.harness.inference.results import PrefixRewards, Solution, Step

__all__ = ["CalibratedPRM"]


class CalibratedPRM:
    """A calibrated PRM in use. Models are loaded at the first use, once, and `close` gives their memory back.

    It may be used from several threads and from asynchronous code: one call runs at a time.

    Attributes
    ----------
    name : str
        The cell, such as ``#12`` with its identifier, or the folder.
    llm, prm, calibrator : str
        Their names in the grid. `llm` is empty if it was loaded without one; then it only scores.
    levels : tuple of float
        The levels of the calibrated rewards.
    """

    name: str
    llm: str
    prm: str
    calibrator: str
    levels: tuple[float, ...]

    def score(self, question: str, steps: Sequence[str]) -> PrefixRewards:
        """Score all prefixes of one trajectory, in one pass."""
        raise NotImplementedError

    def score_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """Score all prefixes of several trajectories together."""
        raise NotImplementedError

    def samples(self, question: str, *, target: float = 0.99, level: float | None = None) -> int:
        """Return N_IAS: how many samples hold a right one with probability `target`."""
        raise NotImplementedError

    def solve(
        self,
        question: str,
        *,
        target: float | None = None,
        level: float | None = None,
        max_samples: int | None = None,
        abstain_below: float | None = None,
        strategy: str | None = None,
        seed: int = 0,
    ) -> Solution:
        """Answer a question."""
        raise NotImplementedError

    def solve_many(
        self,
        questions: Sequence[str],
        *,
        target: float | None = None,
        level: float | None = None,
        max_samples: int | None = None,
        abstain_below: float | None = None,
        strategy: str | None = None,
        seed: int = 0,
    ) -> list[Solution]:
        """Answer questions together. One that fails has an `error`; the others are not affected."""
        raise NotImplementedError

    def stream(
        self,
        question: str,
        *,
        target: float | None = None,
        level: float | None = None,
        max_samples: int | None = None,
        abstain_below: float | None = None,
        strategy: str | None = None,
        seed: int = 0,
    ) -> Iterator[Step | Solution]:
        """Answer a question, and give every step with its rewards as soon as it is generated. Last is the solution."""
        raise NotImplementedError

    async def ascore_many(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[PrefixRewards]:
        """As `score_many`, without blocking the event loop. Calls that wait together are scored together."""
        raise NotImplementedError

    async def asolve(self, question: str, **how: object) -> Solution:
        """As `solve`, without blocking the event loop."""
        raise NotImplementedError

    def astream(self, question: str, **how: object) -> AsyncIterator[Step | Solution]:
        """As `stream`, without blocking the event loop."""
        raise NotImplementedError

    def close(self) -> None:
        """Unload the models and free their memory. They are loaded again at the next use."""
        raise NotImplementedError

    def __enter__(self) -> CalibratedPRM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
