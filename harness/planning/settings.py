"""The settings of a grid: how LLMs are sampled, how strategies are scaled, and the ranges of numbers.

The upper limits of the fields are far above what a machine can run. With larger numbers a plan alone would take hours.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prmcal.registry.contracts.data import Sampling
from prmcal.registry.contracts.plugin import FinitePositive, Share, ShareOrOne

_MOST = 1_000_000

Number = Annotated[int, Field(ge=1, le=_MOST)]
"""A number of questions, trajectories, follow-ups or tokens."""
MostPrefixes = Annotated[int, Field(ge=2, le=_MOST)] | None
"""The largest number of prefixes of a trajectory that are followed up, its ends included; None for all."""
Bins = Annotated[int, Field(ge=1, le=10_000)]
Replicates = Annotated[int, Field(ge=100, le=100_000)]
FirstPrefixes = Annotated[int, Field(ge=1, le=_MOST)] | None
"""The number of prefixes of a trajectory that are followed up, from the bare question on; None for all."""
PreferAnswered = Annotated[float, Field(gt=1, le=10)] | None
"""Completions that are drawn for each that is kept; None for one."""
Shares = Annotated[list[Share], Field(min_length=1, max_length=100)]


class Section(BaseModel):
    """The base of all parts of a grid. Unknown fields are errors."""

    # The texts below the fields are their descriptions in the reference of the grid file and in its JSON Schema.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    def given(self, *names: str) -> dict[str, Any]:
        """Return the fields with these names that have a value."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class SamplingSpec(Section):
    """The sampling of every LLM of the grid."""

    temperature: FinitePositive = 0.7
    """The temperature. It is above 0, because success is defined for an LLM that samples."""
    top_p: ShareOrOne = 1.0
    """The probability mass of nucleus sampling."""
    max_tokens: Number = 2048
    """The largest number of tokens of a solution."""
    stop: list[str] = []
    """A completion ends before the first of these texts."""

    def sampling(self) -> Sampling:
        """Return the values as the type that LLMs receive."""
        return Sampling(self.temperature, self.top_p, self.max_tokens, tuple(self.stop))


class ScalingSpec(Section):
    """The settings of strategies: the fixed budget N (`samples`), the targets C and the quantile levels beta."""

    samples: Number = 64
    """The fixed budget N: the samples of each question in the pool. No strategy uses more."""
    targets: Shares = [0.99]
    """The target probabilities C of strategies with IAS."""
    levels: Shares = [0.1]
    """The quantile levels beta of strategies that read calibrated rewards: any, if the calibrator predicts any level.
    A point estimate is used for every level."""


class ShardSpec(Section):
    """The size of a shard, the unit of work and of resume, and its longest time. Another size gives other samples."""

    questions: Number = 50
    """The number of questions of a shard."""
    trajectories: Number | None = None
    """The number of trajectories of each question in a shard. By default 8. For the LLM `vllm`, whose engine is fast
    with thousands of texts at once, 32 after the first 8."""
    time_limit: FinitePositive = 24.0
    """The longest time of a shard in hours. A shard that takes longer fails, because its plugin seems to hang."""

    @property
    def block(self) -> int:
        """The number of trajectories of each question in the first shard, and of follow-ups in every shard."""
        return self.trajectories or 8
