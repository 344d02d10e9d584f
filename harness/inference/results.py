"""The results of a calibrated PRM, as plain data. ``dataclasses.asdict`` of each can be written as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Stopped = Literal["sure", "planned", "budget", "failed"]
"""The reason why no more samples were drawn.

"sure": the strategy's rule was fulfilled. "planned": the number of samples was decided before the first one. "budget":
the largest number of samples was reached first. "failed": an error ended the question.
"""


@dataclass(frozen=True)
class Familiarity:
    """The comparison of a question with those that the calibrator was fitted to."""

    familiar: bool
    """True if all its values are inside what is usual for calibration questions. If not, calibrated rewards may be
    wrong."""
    message: str = ""
    """The unusual values, as a sentence; empty if nothing is."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The values that an alarm compares over many questions, by their names; see :attr:`Solution.alarm`."""


@dataclass(frozen=True)
class PrefixRewards:
    """The rewards of the prefixes x_{0:0}, ..., x_{0:T} of one trajectory. The first one is of the bare question."""

    levels: tuple[float, ...]
    """The quantile levels beta, ascending. One level, 0.5, is a point estimate."""
    uncalibrated: tuple[float | None, ...]
    """The PRM's own rewards, in [0, 1]. None for a prefix that is too long for the PRM, here and below."""
    quantiles: tuple[tuple[float, ...] | None, ...]
    """The calibrated rewards at each level."""
    point: tuple[float | None, ...]
    """The calibrated median."""
    terminal: tuple[bool, ...]
    """True if the prefix contains its final answer. Calibrators are fitted without such prefixes unless the grid says
    otherwise, so their calibrated rewards mean little."""
    tokens: int = 0
    """Tokens that the PRM read."""


@dataclass(frozen=True)
class Step:
    """One step that was generated while a question is solved, with the rewards of the prefix that it ends."""

    trajectory: int
    """The trajectory that it belongs to, from 0."""
    step: int
    """t, from 1; 0 for the bare question, whose text is empty."""
    text: str
    uncalibrated: float | None
    """The PRM's own reward; None if the prefix is too long for the PRM, here and below."""
    quantiles: tuple[float, ...] | None
    point: float | None
    terminal: bool = False
    """True if the prefix contains its final answer; see :class:`PrefixRewards`."""


@dataclass(frozen=True)
class Trajectory:
    """A trajectory that was drawn."""

    text: str
    """Its steps are separated by a blank line."""
    answer: str | None
    """The final answer; None if it has none."""
    score: float | None
    """The PRM's log-odds of the whole trajectory; None if it is too long for the PRM."""
    tokens: int
    """Generated tokens."""
    finish_reason: str
    """See :class:`prmcal.Completion`."""


@dataclass(frozen=True)
class Spent:
    """The cost of a question."""

    samples: int = 0
    """Trajectories that were drawn. A beam search counts the steps that it sampled."""
    generated_tokens: int = 0
    prm_tokens: int = 0
    """Tokens that the LLM generated and that the PRM read."""
    seconds: float = 0.0
    """From the question to its answer. Questions that are solved together share this time."""


@dataclass(frozen=True)
class Solution:
    """The answer to a question."""

    question: str
    answer: str | None = None
    """None if it abstains, if no trajectory has an answer, or if it failed."""
    probability: float | None = None
    """The probability that the answer is right, given everything that was drawn. None if there is no answer to speak
    of. If it abstains, the probability of the answer that it does not give."""
    low: float | None = None
    high: float | None = None
    """An interval of `probability`. If its basis is "posterior", it is the 95% interval for a limited number of
    calibration questions. If it is "reward", it reaches from the lowest to the highest level of the calibrator, and is
    None for a point estimate."""
    basis: Literal["posterior", "reward"] = "reward"
    """The source of `probability`: from all scores and votes by Bayes' rule, or from the calibrated reward of the
    last prefix without a final answer of the chosen trajectory. The latter is used if the trajectories were searched,
    or the calibration questions are not known."""
    abstained: bool = False
    """True if there is an answer whose probability is below the bound, or that the strategy withholds."""
    stopped: Stopped = "failed"
    reason: str = "An error ended the question."
    """The reason why it stopped, as a sentence."""
    spent: Spent = Spent()
    rewards: PrefixRewards | None = None
    """The rewards of the trajectory that gives the answer."""
    trajectories: tuple[Trajectory, ...] = ()
    chosen: int | None = None
    """The index of the trajectory that gives the answer."""
    correct: bool | None = None
    """True if the answer is equal to the reference; None without a reference or without an answer."""
    familiarity: Familiarity = Familiarity(True)
    alarm: str = ""
    """The sentences of the alarm, if this question and those before it, taken together, are no longer like the
    calibration questions; empty if not. A false alarm has a probability of at most 5%, over all questions."""
    error: str = ""
    """The error; empty if nothing did. In a batch the other questions are not affected."""

    def as_data(self) -> Mapping[str, Any]:
        """Return it as JSON data."""
        return asdict(self)
