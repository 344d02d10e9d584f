"""The JSON of a bundle: types that are stricter than those of a run's own folder, because names become columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from prmcal.db.metrics import Leaderboard
from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.planning.grid import Name, StrategyName
from prmcal.harness.storage.store import Manifest

_NUMBER = Field(ge=0, le=2**53, allow_inf_nan=False)
"""The range of numbers in a manifest. The database and statistics hold sums of a thousand such numbers."""
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Level = int | Annotated[float, Field(allow_inf_nan=False)] | str | None
_Probability = Annotated[float, Field(gt=0, lt=1)] | None


@dataclass(frozen=True)
class _Manifest(Manifest):
    seconds: Annotated[float, _NUMBER]
    size: _Count = 1
    samples: _Count = 0
    generated_tokens: _Count = 0
    scored_tokens: _Count = 0


class _Labels(BaseModel):
    llm: Name | Literal[""]
    prm: Name | Literal[""]
    calibrator: Name | Literal[""]
    dataset: Name | Literal[""]
    split: str


class _CellLabels(_Labels):
    llm: Name
    dataset: Name


class _Cell(BaseModel):
    """A cell of a run. Only those of a merged leaderboard have conditions and variants."""

    model_config = ConfigDict(extra="forbid")
    leaderboard: Leaderboard
    labels: _CellLabels
    job: int
    strategy: StrategyName | Literal[""]
    target: _Probability
    level: _Probability
    conditions: Literal[""] = ""
    variant: Literal[""] = ""


class _Job(BaseModel):
    labels: _Labels
    resource: str
    version: int
    model_seconds: list[Annotated[float, _NUMBER]]


class _Plugin(BaseModel):
    reference: PluginReference
    identity: dict[str, Any]
    citation: str
    absent: str


class _Questions(BaseModel):
    name: Name
    split: str
    content_hash: str
    grader_version: str
    questions: list[tuple[str, str | None, str | None, _Level, str | None]]


class _Plan(BaseModel):
    plugins: dict[str, list[_Plugin]]
    datasets: list[_Questions]
    jobs: list[_Job]
    cells: list[_Cell]


MANIFEST, PLAN, FAILURES = TypeAdapter(_Manifest), TypeAdapter(_Plan), TypeAdapter(dict[str, Failure])
"""The readers of a manifest, a plan and the reasons of failures. They read strictly, and only to check."""
