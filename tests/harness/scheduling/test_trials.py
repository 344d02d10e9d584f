"""Each model is tried out on its first shard, and a model that fails there is given up."""

from __future__ import annotations

from typing import Any

from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.events import Notice, ShardOutcome
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest
from prmcal.registry.plugins import load_plugin_file
from tests.harness.planning.synthetic_plans import PLUGINS, plan

load_plugin_file(PLUGINS / "synthetic.py")
PRMS = [
    {"name": name, "plugin": "synthetic-prm", "arguments": {"skill": skill}} for name, skill in (("a", 0.9), ("b", 0.8))
]
MODELS = ["llm:weak", "llm:strong", "prm:a", "prm:b"]


def work(schedule: Schedule, failures: dict[str, Failure] | None = None, loaded: str = "") -> list[Shard[Any]]:
    """Let one worker compute all shards; those of some models fail. Return them in the order of their turns."""
    taken = []
    while (shard := schedule.take(loaded)) is not None:
        taken.append(shard)
        loaded = shard.resource or loaded
        failure = (failures or {}).get(shard.resource)
        schedule.finish(ShardOutcome(shard.ref, None if failure else Manifest({}, 0.0), failure))
    assert schedule.finished
    return taken


def turns(shards: list[Shard[Any]]) -> list[str]:
    """Models in the order in which they are loaded."""
    names = [each.resource for each in shards if each.resource]
    return [name for name, before in zip(names, ["", *names], strict=False) if name != before]


def refs(planned: Plan, model: str) -> set[ArtifactRef]:
    return {shard.ref for shard in planned.shards() if shard.resource == model}


def test_each_model_is_tried_out_before_all_is_sampled() -> None:
    schedule = Schedule(plan(prms=PRMS), ())
    assert schedule.untried == set(MODELS)
    taken = work(schedule)
    tried = [each.ref.kind for each in taken if each.resource]
    assert tried[:4] == ["rollout", "rollout", "score", "score"]
    assert turns(taken) == [*MODELS, *MODELS]
    assert schedule.untried == set()


def test_a_model_that_has_worked_before_is_not_tried_out_again() -> None:
    planned = plan(prms=PRMS)
    first = [next(each.ref for each in planned.shards() if each.resource == name) for name in MODELS]
    schedule = Schedule(planned, set(first))
    assert schedule.untried == set()
    assert turns(work(schedule)) == MODELS


def test_a_model_that_fails_first_is_given_up_and_the_others_go_on() -> None:
    planned = plan(prms=PRMS)
    schedule = Schedule(planned, ())
    taken = {
        each.ref for each in work(schedule, {"prm:b": Failure("The prm 'b' failed to score: no key.", plugin="prm:b")})
    }
    assert len(taken & refs(planned, "prm:b")) == 1
    for model in MODELS[:-1]:
        assert refs(planned, model) <= taken, model


def test_what_nothing_reads_any_more_is_not_sampled() -> None:
    one = [{"name": "weak", "plugin": "synthetic-llm"}]
    planned = plan(prms=PRMS[:1], llms=one, strategies=["best-of-n"])
    schedule = Schedule(planned, ())
    failure = Failure("The prm 'a' failed to score: no key.", plugin="prm:a")
    assert [each.ref.kind for each in work(schedule, {"prm:a": failure})] == ["rollout", "graded", "score"]
    assert not schedule.unfinished


def test_a_model_is_not_given_up_for_what_another_plugin_did() -> None:
    planned = plan(prms=PRMS)
    failure = Failure("The dataset 'long' failed to grade: it has no answer.", plugin="dataset:long")
    taken = {each.ref for each in work(Schedule(planned, ()), {"llm:weak": failure})}
    rollouts = {each.ref for each in planned.shards() if each.ref.kind == "rollout"}
    assert rollouts & refs(planned, "llm:weak") <= taken


def test_a_model_that_fails_first_is_said_at_once() -> None:
    schedule = Schedule(plan(prms=PRMS), ())
    shard = schedule.take()
    assert shard is not None
    failure = Failure("The llm 'weak' failed to generate: no key.", plugin="llm:weak")
    *outcomes, notice = schedule.report(ShardOutcome(shard.ref, failure=failure), "worker 1")
    assert notice == Notice(failure.reason, urgent=True)
    failed = {each.ref for each in outcomes if isinstance(each, ShardOutcome) and not each.blocked}
    assert failed == {
        each.ref for each in plan(prms=PRMS).shards() if each.resource == "llm:weak" and each.ref.kind == "rollout"
    }
