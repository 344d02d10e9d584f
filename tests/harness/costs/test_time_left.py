"""The costs of shards and the time left, as finished shards of the grid `hello` teach them."""

from __future__ import annotations

import pytest

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.costs import CostModel, seconds_left
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import find_grid, read_grid
from prmcal.harness.storage.store import Manifest


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build_plan(read_grid(find_grid("hello")))


def shards_of(plan: Plan, kind: str) -> list[Shard[Parameters]]:
    return [shard for shard in plan.shards() if shard.ref.kind == kind]


def test_a_shard_takes_as_long_as_finished_ones_of_its_kind_for_its_size(plan: Plan) -> None:
    rollouts, scores = shards_of(plan, "rollout"), shards_of(plan, "score")
    cost = CostModel(plan, {})
    assert cost.seconds(rollouts) is None
    cost.learn(rollouts[0].ref, Manifest({}, 3.0))
    size = sum(shard.size for shard in rollouts)
    assert cost.seconds(rollouts) == pytest.approx(3 * size / rollouts[0].size)
    assert cost.seconds(scores) is not None  # from other shards with a model
    cost.learn(scores[0].ref, Manifest({}, 0.5))
    assert cost.seconds(scores[:1]) == pytest.approx(0.5)


def test_the_first_shards_alone_give_no_time_left(plan: Plan) -> None:
    rollout, *left = plan.shards()
    cost = CostModel(plan, {rollout.ref: Manifest({}, 1.0)})
    assert (cost.seconds(left) or 0.0) > 19
    assert seconds_left(left, cost, 2) is None
    assert seconds_left(shards_of(plan, rollout.ref.kind)[1:2], cost, 2) is not None


def test_the_time_left_is_that_of_all_workers_or_of_the_longest_shard(plan: Plan) -> None:
    shards = list(plan.shards())
    cost = CostModel(plan, {shard.ref: Manifest({}, 0.5) for shard in shards[::2]})
    left = shards[1::2]
    seconds = {shard.ref: cost.seconds([shard]) or 0.0 for shard in left}
    total, longest = sum(seconds.values()), max(seconds, key=lambda ref: seconds[ref])
    assert seconds_left(left, cost, 2) == pytest.approx(max(total / 2, seconds[longest]))
    assert seconds_left(left, cost, 10_000) == pytest.approx(seconds[longest])
    began = {longest: seconds[longest] / 2}
    assert seconds_left(left, cost, 1, began) == pytest.approx(total - seconds[longest] / 2)
