"""The pool: sampled, graded and scored trajectories."""

from typing import Any, Literal, get_args

from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.errors import DataError, PluginFailedError

Reads = Literal["scores", "step_scores", "rewards", "success"]
READS: tuple[Reads, ...] = get_args(Reads)
SCORES: tuple[Reads, ...] = ("scores",)

PER_TRAJECTORY: frozenset[str] = frozenset(("scores", "step_scores"))
"""The arrays with a value for every trajectory, along the second axis."""


class _Declared:
    """The arrays of a pool that a strategy may read if it declares them. The pool of a run has nothing else."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, pool: "Pool", owner: type | None = None) -> Floats:
        value = pool._arrays[self.name]
        if value is None:
            raise PluginFailedError(f"The strategy reads '{self.name}' undeclared. Add '{self.name}' to its 'reads'.")
        return value


class Pool:
    """The pool: M sampled, graded and scored trajectories of each question. They are independent and unordered.

    At inference, a strategy may use the arrays in its `reads`, except `success`. It must not choose by `correct` or
    `success`: they are for expected results and for reference strategies.

    Scores are log-odds of the PRM itself. Rewards are probabilities in [0, 1] of a fitted calibrator. Where the input
    is too long for the PRM, both are NaN. Strategies share the arrays, so none may write to them.

    Parameters
    ----------
    correct : ndarray of shape (questions, M), bool
        Whether the final answer of each trajectory is correct.
    answers : ndarray of shape (questions, M), int64, or None
        The final answers as numbers: equal within a question if their texts are equal; -1 if there is none. None if
        nothing has an answer, as for programs and agents. Reading them then raises DataError.
    scores : ndarray of shape (questions, M), float64, optional
        Score of each whole trajectory.
    rewards : ndarray of shape (questions,), float64, optional
        Reward of the bare question at one level beta.
    success : ndarray of shape (questions,), float64, optional
        Success rate of the bare question in [0, 1]: the share of correct ones among its follow-ups. The follow-ups are
        independent of the pool. NaN where the bare question has no follow-ups.
    step_scores : ndarray of shape (questions, M, T + 1), float64, optional
        Score of each trajectory after t steps. The entry at t = 0 belongs to the bare question. T is the number of
        steps of the longest trajectory. Entries after the last step of a trajectory are NaN.
    """

    scores, step_scores = _Declared(), _Declared()
    rewards, success = _Declared(), _Declared()

    def __init__(
        self,
        correct: Bools,
        answers: Ints | None,
        scores: Floats | None = None,
        rewards: Floats | None = None,
        success: Floats | None = None,
        step_scores: Floats | None = None,
    ) -> None:
        self.correct = correct
        self._answers = answers
        self._arrays: dict[str, Floats | None] = {
            "scores": scores,
            "rewards": rewards,
            "success": success,
            "step_scores": step_scores,
        }

    @property
    def answers(self) -> Ints:
        """The final answers as numbers."""
        if self._answers is None:
            raise DataError("Not possible: the solutions have no answers to compare. It is only known which are right.")
        return self._answers

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.correct)

    @property
    def size(self) -> int:
        """M, the number of trajectories of each question."""
        return int(self.correct.shape[1])

    def drawn(self, questions: slice | NDArray[Any], trajectories: slice | NDArray[Any]) -> "Pool":
        """Return the part of the pool with these questions and these of their trajectories."""
        arrays = {name: value[questions] for name, value in self._arrays.items() if value is not None}
        arrays |= {name: value[:, trajectories] for name, value in arrays.items() if name in PER_TRAJECTORY}
        return Pool(
            self.correct[questions][:, trajectories],
            None if self._answers is None else self._answers[questions][:, trajectories],
            **arrays,
        )

    def has(self, name: Reads) -> bool:
        """Return whether the pool has the array of this name."""
        return self._arrays[name] is not None

    def with_grades(self, correct: Bools) -> "Pool":
        """Return the same trajectories with other grades, of shape (questions, M)."""
        return Pool(correct, self._answers, **self._arrays)
