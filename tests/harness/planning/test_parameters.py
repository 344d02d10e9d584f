"""The parameters of shards: they survive being sent to a worker, and the database gets them as JSON."""

from __future__ import annotations

import json
import pickle

import pytest

from prmcal.harness.jobs import function_of
from prmcal.harness.jobs import parameters as classes
from prmcal.harness.jobs.parameters import Parameters, SearchParameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build_plan(read_grid(ROOT / "grids" / "nano.yaml").limited(3))


def kinds() -> list[type[Parameters]]:
    found = [each for name, each in vars(classes).items() if not name.startswith("_")]
    return [each for each in found if isinstance(each, type) and "kind" in vars(each)]


def test_every_kind_of_job_has_a_function() -> None:
    assert len({each.kind for each in kinds()}) == len(kinds()) == 17
    for each in kinds():
        assert callable(function_of(each.kind))


def test_every_shard_can_be_sent_to_a_worker(plan: Plan) -> None:
    shards = list(plan.shards())
    assert pickle.loads(pickle.dumps(shards)) == shards
    assert {type(shard.parameters) for shard in shards} == set(kinds()) - {
        classes.ImportedParameters,
        classes.VerdictParameters,
    }


def test_stored_parameters_are_json_with_the_slice_beside_the_others(plan: Plan) -> None:
    for shard in plan.shards():
        stored = shard.parameters.stored()
        assert json.loads(json.dumps(stored)).keys() == stored.keys()
        data = shard.parameters.data
        assert stored["questions"] == [data.questions.start, data.questions.stop]
        assert stored["split"] == data.split
        assert stored["dataset"]["name"] == data.dataset.name


def test_a_search_without_a_calibrator_stores_none(plan: Plan) -> None:
    for job in plan.jobs_of(SearchParameters):
        for shard in job.shards:
            assert ("calibrator" in shard.parameters.stored()) == bool(job.labels.calibrator)
            assert (shard.parameters.calibrator is None) == (not shard.inputs)
            assert shard.size == len(shard.parameters.data.questions)
