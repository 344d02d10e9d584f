"""The seats of workers in simulated runs: no two share a GPU, and none is idle while a shard that fits is ready."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.placement import Stint, simulated
from prmcal.harness.execution.machine import Slot, slots_of_machine
from prmcal.harness.jobs.job import Job, JobLabels, Shard
from prmcal.harness.jobs.parameters import Parameters, PluginReference
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef


class ModelParameters(Parameters):
    kind = "any"

    def __init__(self, gpus: int) -> None:
        arguments = {"device": "balanced"} if gpus == ALL else {"tensor_parallel": gpus}
        self.prm = PluginReference(f"model-{gpus}", "any", arguments)


ALL = 99


def planned(needed: list[tuple[int, bool]]) -> Plan:
    """Shards that need these GPUs (0 for no model). Some of them wait for the one before."""
    refs = [ArtifactRef("any", str(number)) for number in range(len(needed))]
    shards = [
        Shard(
            refs[number],
            ModelParameters(gpus),
            {"before": (refs[number - 1],)} if waits and number else {},
            f"prm:model-{gpus}" if gpus else "",
        )
        for number, (gpus, waits) in enumerate(needed)
    ]
    return Plan((Job("job", JobLabels(), tuple(shards)),), (), {}, ())


def check(plan: Plan, slots: list[Slot], stints: list[Stint]) -> None:
    assert sorted(each.shard.ref.key for each in stints) == sorted(each.ref.key for each in plan.shards())
    every = {gpu for slot in slots for gpu in slot.gpus}
    ready = {each.shard.ref: 0.0 for each in stints}
    ends = {each.shard.ref: each.end for each in stints}
    for each in stints:
        ready[each.shard.ref] = max((ends[ref] for refs in each.shard.inputs.values() for ref in refs), default=0.0)
    for each in stints:
        own = [other for other in stints if other is not each and other.begin < each.end and each.begin < other.end]
        assert not any(set(other.gpus) & set(each.gpus) for other in own)
        needs = each.shard.parameters.prm.arguments if each.shard.resource else {"tensor_parallel": 0}  # type: ignore[attr-defined]
        needed = needs.get("tensor_parallel", len(every))
        assert needed <= len(each.gpus)
        # At every moment of its waiting there were too few free GPUs.
        for moment in {ready[each.shard.ref], *(other.end for other in stints)}:
            if ready[each.shard.ref] <= moment < each.begin:
                busy = {gpu for other in stints if other.begin <= moment < other.end for gpu in other.gpus}
                assert len(every - busy) < max(1, needed)


@given(
    st.lists(st.tuples(st.sampled_from((0, 1, 1, 1, 2, 4, ALL)), st.booleans()), min_size=1, max_size=25),
    st.integers(4, 9),
    st.integers(0, 2**32),
)
def test_no_gpu_is_idle_while_a_shard_that_fits_is_ready(needed: list[tuple[int, bool]], gpus: int, seed: int) -> None:
    plan, chance = planned(needed), random.Random(seed)
    seconds = {shard.ref: chance.randint(1, 9) for shard in plan.shards()}
    slots = slots_of_machine([str(gpu) for gpu in range(gpus)], gpus)
    check(plan, slots, simulated(plan, slots, lambda shard: seconds[shard.ref]))


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_a_large_model_has_its_gpus_whatever_the_number_of_workers(workers: int) -> None:
    slots = slots_of_machine("0123", workers)
    stints = simulated(planned([(1, False)] * 6 + [(3, False)] * 2), slots, lambda shard: 1.0)
    assert min(len(each.gpus) for each in stints if "3" in each.shard.resource) >= 3


def test_a_node_that_is_too_small_gets_no_large_model() -> None:
    slots = [
        Slot(0, "small", ("0",)),
        *(Slot(number, "large", (str(number),)) for number in range(4)),
    ]
    stints = simulated(planned([(4, False), (1, False), (4, False)]), slots, lambda shard: 1.0)
    assert [len(each.gpus) for each in stints if "4" in each.shard.resource] == [4, 4]
