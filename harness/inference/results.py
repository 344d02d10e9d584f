"""The results of a calibrated PRM, as plain data. ``dataclasses.asdict`` of each can be written as JSON."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PrefixRewards:
    """The rewards of the prefixes x_{0:0}, ..., x_{0:T} of one trajectory. The first reward is of the bare question."""

    levels: tuple[float, ...]
    """The quantile levels beta, ascending. One level, 0.5, is a point estimate."""
    log_odds: tuple[float | None, ...]
    """The PRM's own log-odds. None for a prefix that is too long for the PRM, here and below."""
    uncalibrated: tuple[float | None, ...]
    """The PRM's own rewards, in [0, 1]."""
    quantiles: tuple[tuple[float, ...] | None, ...]
    """The calibrated rewards at each level."""
    point: tuple[float | None, ...]
    """The calibrated median."""
    terminal: tuple[bool, ...]
    """True if the prefix contains its final answer. Calibrators are fitted without such prefixes unless the grid says
    otherwise, so their calibrated rewards mean little."""
    tokens: int = 0
    """Tokens that the PRM read."""

    @property
    def before_answer(self) -> tuple[float | None, float | None, float | None]:
        """The median of the last prefix without the final answer, and its lowest and highest level.

        The levels are None for a point estimate, and all are None if the prefix is too long for the PRM.
        """
        place = self.terminal.index(True) - 1 if True in self.terminal else -1
        quantiles = self.quantiles[place]
        if quantiles is None or len(quantiles) == 1:
            return self.point[place], None, None
        return self.point[place], quantiles[0], quantiles[-1]


@dataclass(frozen=True)
class Trajectory:
    """A trajectory that was drawn."""

    text: str
    """Its steps are separated by a blank line."""
    answer: str | None
    """The final answer, or None."""
    tokens: int
    """Generated tokens."""
    finish_reason: str
    """See :class:`prmcal.Completion`."""
    rewards: PrefixRewards


@dataclass(frozen=True)
class Solution:
    """The answer to a question."""

    question: str
    answer: str | None
    """None if the chosen trajectory has no final answer."""
    probability: float | None
    """The calibrated reward of the chosen trajectory before its final answer: the probability that it becomes right.
    None if there is no answer, or the trajectory is too long for the PRM."""
    low: float | None
    high: float | None
    """The lowest and the highest level of this reward; None for a point estimate."""
    reason: str
    """Why no more samples were drawn, as a sentence."""
    samples: int
    """Trajectories that were drawn."""
    generated_tokens: int
    seconds: float
    trajectories: tuple[Trajectory, ...]
    chosen: int
    """The index of the trajectory that gives the answer."""
