"""The data that pass between the plugins: questions, prefixes, completions, scores, hidden states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from prmcal.arrays import Bools, Floats, Floats32, Ints
from prmcal.log_odds import log_odds

FinishReason = Literal["end", "stop", "length", "thought"]
"""The reason why a completion ended: at the LLM's end token, at a stop string, or at the largest number of tokens.

At the largest number of tokens, ``length`` becomes ``thought`` if the completion ends inside a thought, between
``<think>`` and ``</think>``. LLMs need not return this reason: it is found when a completion is stored.
"""


GIVEN = "given"
"""How answers were found if the LLM knows which trajectories are right, so that none was graded."""

Level = int | float | str
"""The difficulty of a question, as its data set gives it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A problem with its reference answer."""

    id: str
    """Unique within its data set and split."""
    text: str
    answer: str
    """The problem as the LLM reads it, and the reference answer without a box."""
    level: Level | None = None
    """Difficulty, a number or a word, such as 1 (easy) to 5 (hard); None if it is not known."""
    subject: str | None = None
    """Topic; None if it is not known."""
    options: tuple[str, ...] = ()
    """The texts of the options of a multiple-choice question, option A first; empty for other questions."""
    fields: tuple[tuple[str, str], ...] = ()
    """Names and values of other fields by which results can be grouped, such as ("language", "de"). No job reads them,
    and they belong to no key."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A question and the first t steps of a trajectory; t = 0 is the bare question."""

    question: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """The parameters for sampling completions."""

    temperature: float = 1.0
    """Above 0, because success is defined for a stochastic policy (Definition 1)."""
    top_p: float = 1.0
    """Probability mass of nucleus sampling, in (0, 1]."""
    max_tokens: int = 512
    """The largest number of tokens of one completion."""
    stop: tuple[str, ...] = ()
    """A completion ends before the first of these strings."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation of a prefix."""

    text: str
    """The generated text, without the prefix."""
    tokens: int
    """Generated tokens."""
    finish_reason: FinishReason
    """``end`` if the LLM ended the text itself, with its end token. ``stop`` if the completion reached a stop string of
    the sampling, so that it might have gone on. ``length`` if it reached `max_tokens` or the end of the LLM's context,
    and ``thought`` if this happened inside a thought; an LLM need not return ``thought``."""
    prompt_tokens: int = 0
    """The number of tokens of the prefix, for the costs; 0 if the LLM does not report it."""
    correct: bool | None = None
    """The grade of the whole trajectory, if the LLM knows it, for example from unit tests. With None, the data set
    grades it."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prefix to continue: the number of its completions, and their seed."""

    prefix: Prefix
    n: int
    seed: int


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """One question with trajectories to score."""

    question: str
    trajectories: tuple[tuple[str, ...], ...]
    """Each trajectory as its steps."""
    whole_only: bool = False
    """True if only the score of each whole trajectory will be read. A PRM may then return one score instead of T+1. In
    both cases, the last score belongs to the whole trajectory."""

    def prefixes(self, steps: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the prefixes of a trajectory whose scores will be read, the shortest one first."""
        return [steps[:count] for count in range(len(steps) if self.whole_only else 0, len(steps) + 1)]


@dataclass(frozen=True, slots=True)
class PrefixScores:
    """The scores of all T+1 prefixes of one trajectory, t = 0 first, or of the whole one with `whole_only`."""

    logit: Floats32
    """Log-odds of success. Of shape (T+1,), float32."""
    reward: Floats
    """The score as a probability in [0, 1]. Of shape (T+1,), float64."""
    over_long: Bools
    """True if the prefix is too long for the PRM. Its score is then NaN. A prefix is never truncated. Of shape (T+1,),
    bool."""
    tokens: int
    """Tokens that the PRM read for this trajectory. Tokens that its prefixes share are counted once."""

    @classmethod
    def from_rewards(cls, rewards: ArrayLike, tokens: int = 0, over_long: ArrayLike | None = None) -> Self:
        """Return the scores of T+1 rewards in [0, 1]. A reward of 0 or 1 is kept.

        They then have the log-odds of 1e-7 or 1 - 1e-7. `over_long` flags prefixes that are too long, by default none.

        >>> PrefixScores.from_rewards([0.5, 0.0]).logit.round().tolist()
        [0.0, -16.0]
        """
        reward = np.array(rewards, dtype=np.float64)
        unread = np.zeros(reward.shape, np.bool_) if over_long is None else np.asarray(over_long, dtype=np.bool_)
        reward[unread] = np.nan
        return cls(log_odds(reward).astype(np.float32), reward, unread, tokens)


class StateRows(Protocol):
    """States by node: an array, or rows that are computed when they are read (``hidden: computed`` in a grid)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(nodes, width)."""

    def __len__(self) -> int: ...

    def __getitem__(self, nodes: Ints, /) -> Floats32:
        """Return the states of some nodes, of shape (*nodes.shape, width)."""


@dataclass(frozen=True)
class HiddenStates:
    """The PRM's hidden states of prefixes, as a forest: each path from a root to a leaf is one prefix.

    Prefixes of one question begin with the same tokens. The states of these tokens are equal, because a token attends
    only to the tokens before it.

    Examples
    --------
    A question with two tokens, and two prefixes that continue it with one token each. Row 0 has the tokens 0, 1, 2 and
    row 1 has the tokens 0, 1, 3. A calibrator with ``reads = "hidden"`` uses the state at the end of each prefix, or
    follows `parents` from there to the first token.

    >>> import numpy as np
    >>> hidden = HiddenStates(
    ...     states=np.arange(8, dtype=np.float32).reshape(4, 2),
    ...     parents=np.array([-1, 0, 1, 1]),
    ...     leaves=np.array([2, 3]),
    ...     logit=np.array([0.5, -1.0]),
    ... )
    >>> len(hidden), hidden.states[hidden.leaves].tolist()
    (2, [[4.0, 5.0], [6.0, 7.0]])
    >>> hidden[np.array([1])].logit.tolist()
    [-1.0]
    """

    states: Floats32
    """The last layer's output at every token. In a grid with ``hidden: computed`` it is not an array. It has a length,
    a shape, and rows that are computed when they are read. Read the rows of few questions at a time: all rows of one
    reading are in memory."""
    parents: Ints
    """The index of the token before, which is smaller; -1 for the first token of a question."""
    leaves: Ints
    """The node of each prefix's last token, at which the PRM's score is read."""
    logit: Floats
    """The PRM's log-odds of success of each prefix."""

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, rows: Ints | Bools | slice) -> "HiddenStates":
        """Return some of the prefixes, over the same forest."""
        return HiddenStates(self.states, self.parents, self.leaves[rows], self.logit[rows])

    @classmethod
    def concatenate(cls, forests: "Sequence[HiddenStates]") -> "HiddenStates":
        """Return one forest with the prefixes of all parts, in their order."""
        offsets = np.cumsum([0, *(len(forest.states) for forest in forests)])[:-1]
        pairs = list(zip(forests, offsets, strict=True))
        return cls(
            states=np.concatenate([forest.states for forest in forests]),
            parents=np.concatenate([np.where(tree.parents < 0, -1, tree.parents + offset) for tree, offset in pairs]),
            leaves=np.concatenate([forest.leaves + offset for forest, offset in pairs]),
            logit=np.concatenate([forest.logit for forest in forests]),
        )
