"""Strategies that ask another LLM: what they read, for which LLMs they are planned, and what a grid may not ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from prmcal.errors import GridError
from prmcal.harness.jobs.parameters import CalibratedParameters, StrategyParameters
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.registry.contracts.pool import READS
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.plugins import load_plugin_file, strategies
from tests.conftest import PLUGINS

LLMS = [
    {"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}}
    for name, skill in (("weak", 0.6), ("middle", 0.8), ("strong", 0.95))
]
BY_ANSWER = {"name": "escalation", "arguments": {"to": "strong"}}
BY_QUESTION = {
    "name": "by question",
    "plugin": "escalation",
    "arguments": {"to": "strong", "by": "question"},
}


class ReadsAll(PoolStrategy):
    """Reads everything of two LLMs, on both splits."""

    reads, tuned = READS, True

    def __init__(self, to: str = "strong") -> None:
        self.to = to
        self.others = (to,)

    def answer(self, pool: Any, setting: Setting) -> Answered:
        raise AssertionError("It is only planned.")


@pytest.fixture(autouse=True, scope="module")
def _plugins() -> Iterator[None]:
    load_plugin_file(PLUGINS / "synthetic.py")
    strategies.register("reads all of two")(ReadsAll)
    yield
    strategies.forget(ReadsAll.__module__)


def plan(**changes: Any) -> Plan:
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {"llms": LLMS, "strategies": ["best-of-n", BY_ANSWER, BY_QUESTION, "reads all of two"]}
    return build_plan(GridSpec.model_validate({**data, **changes}))


def cells_of(planned: Plan, strategy: str) -> list[Cell]:
    return [cell for cell in planned.cells if cell.strategy == strategy]


def test_it_is_planned_for_all_llms_but_the_one_that_it_asks() -> None:
    planned = plan(league=True)
    for strategy, times in (("escalation", 1), ("by question", 4), ("reads all of two", 4)):
        cells = cells_of(planned, strategy)
        assert {cell.labels.llm for cell in cells} == {"weak", "middle"}
        assert len(cells) == 2 * 2 * times  # LLMs x data sets x calibrators
        assert {cell.leaderboard for cell in cells} == {"scaling"}  # not in the league


def test_it_reads_the_same_of_both_llms() -> None:
    planned = plan()
    own = {"rollout", "score"}
    tuned = {*own, "calibrated", "pool_rewards", "success"}
    expected = {
        "escalation": own,
        "by question": {*own, "calibrated"},
        "reads all of two": {*tuned, *(f"tuning_{role}" for role in tuned)},
    }
    for strategy, roles in expected.items():
        for cell in cells_of(planned, strategy):
            (shard,) = cell.job.shards
            found = set(shard.inputs)
            if strategy == "escalation":  # it learns from the calibration questions
                roles = {*own, "tuning_rollout", "tuning_score"}
            assert found == roles | {f"other_strong_{role}" for role in roles}
            for job in cell.job.inputs:
                assert job.labels.llm in (cell.labels.llm, "strong")
            for role, refs in shard.inputs.items():
                llm = "strong" if role.startswith("other_") else cell.labels.llm
                split = "calibration" if "tuning_" in role else "test"
                for ref in refs:
                    labels = planned.job_of(ref).labels
                    assert (labels.llm, labels.split) == (llm, split)


def test_every_job_follows_its_inputs_in_any_order_of_the_llms() -> None:
    found = []
    for llms in (LLMS, LLMS[::-1]):
        planned = plan(llms=llms)
        seen: set[str] = set()
        for job in planned.jobs:
            assert {source.key for source in job.inputs} <= seen
            seen.add(job.key)
        assert len(planned.jobs) == len({(job.key, job.labels) for job in planned.jobs})
        found.append(seen)
    assert found[0] == found[1]


def test_it_adds_no_job_but_its_own() -> None:
    with_it, without = plan(strategies=["best-of-n", BY_ANSWER, BY_QUESTION]), plan(strategies=["best-of-n"])
    added = {job.key for job in with_it.jobs} - {job.key for job in without.jobs}
    own = [job for job in with_it.jobs_of(StrategyParameters) if job.key in added]
    assert {job.key for job in own} == added
    assert not {job.key for job in without.jobs} - {job.key for job in with_it.jobs}


def test_rewards_of_both_pools_are_planned_where_they_are_read() -> None:
    planned = plan(strategies=["reads all of two"])
    for llm in ("weak", "strong"):
        jobs = [job for job in planned.jobs_of(CalibratedParameters) if job.labels.llm == llm]
        sizes = {len(job.shards[0].parameters.trajectories) for job in jobs if job.labels.split == "test"}
        assert sizes == {4, 16}  # the measured trajectories, and the whole pool


def test_a_part_for_one_llm_has_what_it_asks_of_the_other() -> None:
    planned = plan()
    cells = planned.cells_with({"llm": ["weak"], "strategy": ["escalation"]})
    needed = {job.labels.llm for job in planned.part(cells).jobs}
    assert needed == {"weak", "strong"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"strategies": [{"name": "escalation", "arguments": {"to": "strnog"}}]},
            "The strategy 'escalation' asks the LLM 'strnog', which the grid does not have. Did you mean 'strong'",
        ),
        (
            {"strategies": [{"name": "escalation", "arguments": {"to": "gpt"}}]},
            "the LLM 'gpt', which the grid does not have. It has: weak, middle, strong.",
        ),
        ({"llms": LLMS[2:]}, "the grid has no other LLM that it could be run for. Add one to 'llms'"),
        (
            {
                "calibrators": [{"name": "isotonic", "llms": ["weak"]}, {"name": "histogram"}],
                "strategies": [BY_QUESTION],
            },
            "'by question' reads rewards of the LLM 'strong', but the calibrator 'isotonic' is not fitted for it",
        ),
    ],
)
def test_what_it_cannot_ask_is_refused_before_the_run(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GridError, match=message):
        plan(**changes)
