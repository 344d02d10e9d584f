"""The schedule: the order of hand-out, lost workers, failures, and how its work grows with the shards."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.jobs.job import Refs, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest
from tests.harness.scheduling.bare_plans import calls, planned, ref

MODELS = ("llm:a", "llm:b", "prm:a", "search:a+a")
FAILURE = Failure("no luck")


def independent(resources: Sequence[str]) -> Plan:
    return planned([{}] * len(resources), resources)


def chain(length: int) -> Plan:
    """Shards of which each reads the one before it."""
    return planned([{}, *({"before": (ref(number),)} for number in range(length - 1))], [""] * length)


def finished(of: ArtifactRef) -> ShardOutcome:
    return ShardOutcome(of, Manifest({}, 0.0))


def failed(of: ArtifactRef) -> ShardOutcome:
    return ShardOutcome(of, failure=FAILURE)


def any_shard(gpus: int) -> bool:
    return True


def with_model(gpus: int) -> bool:
    return gpus > 0


class Reference:
    """The order of hand-out as it is defined: of all ready shards, the first by rank."""

    def __init__(self, plan: Plan) -> None:
        self.waiting = {shard.ref: shard for shard in plan.shards()}
        self.order = {ref: position for position, ref in enumerate(self.waiting)}
        self.running: dict[ArtifactRef, Shard[Parameters]] = {}
        self.done: set[ArtifactRef] = set()
        self.lost: set[ArtifactRef] = set()

    def take(self, loaded: str, fits: Callable[[int], bool]) -> Shard[Parameters] | None:
        def rank(shard: Shard[Parameters]) -> tuple[object, ...]:
            stage = ("", "llm", "prm", "search").index(shard.resource.partition(":")[0])
            other = shard.resource != loaded
            return shard.resource != "", other, stage, shard.ref not in self.lost, self.order[shard.ref]

        ready = [
            shard
            for shard in self.waiting.values()
            if all(each in self.done for refs in shard.inputs.values() for each in refs) and fits(shard.gpus)
        ]
        if not ready:
            return None
        first = min(ready, key=rank)
        self.running[first.ref] = self.waiting.pop(first.ref)
        return first

    def put_back(self, of: ArtifactRef) -> None:
        self.waiting[of] = self.running.pop(of)
        self.lost.add(of)

    def finish(self, of: ArtifactRef, good: bool) -> set[ArtifactRef]:
        """The shards that have an outcome now."""
        del self.running[of]
        if good:
            self.done.add(of)
            return {of}
        gone, before = {of}, 0
        while len(gone) > before:
            before = len(gone)
            gone |= {
                shard.ref
                for shard in self.waiting.values()
                if any(each in gone for refs in shard.inputs.values() for each in refs)
            }
        self.waiting = {each: shard for each, shard in self.waiting.items() if each not in gone}
        return gone


def graph(shards: Sequence[tuple[str, list[int], int]]) -> Plan:
    """A plan of shards: the model that each needs, shards that it reads, and an earlier shard whose inputs it shares.

    Shards that share inputs have them in one tuple, as the shards of a grid do. Numbers wrap around.
    """
    tuples: list[tuple[ArtifactRef, ...]] = [()]
    inputs = []
    for number, (_, read, sharing) in enumerate(shards):
        own = tuple(ref(each % number) for each in read) if number else ()
        tuples.append(own)
        inputs.append({"own": own, "shared": tuples[sharing % len(tuples)]})
    return planned(inputs, [resource for resource, _, _ in shards])


shards_of_graphs = st.tuples(
    st.sampled_from(("", *MODELS)), st.lists(st.integers(0, 20), max_size=3), st.integers(0, 20)
)


@given(st.lists(shards_of_graphs, min_size=1, max_size=14), st.integers(0, 2**32))
def test_shards_are_handed_out_in_the_order_of_their_ranks(shards: list[tuple[str, list[int], int]], seed: int) -> None:
    plan = graph(shards)
    schedule, reference, chance = Schedule(plan, ()), Reference(plan), random.Random(seed)
    while not schedule.finished:
        loaded = chance.choice(("", *MODELS))
        fits = chance.choice((any_shard, any_shard, with_model))
        taken = schedule.take(loaded, fits)
        assert taken == reference.take(loaded, fits)
        if schedule.started and (taken is None or chance.random() < 0.7):
            of = chance.choice(list(schedule.started))
            if chance.random() < 0.2:
                schedule.put_back(of)
                reference.put_back(of)
            else:
                good = chance.random() < 0.8
                outcomes = schedule.finish(finished(of) if good else failed(of))
                assert len(outcomes) == len({each.ref for each in outcomes})
                assert {each.ref for each in outcomes} == reference.finish(of, good)
        left = [shard.ref for shard in schedule.unfinished]
        assert left == sorted(reference.waiting | reference.running, key=lambda each: int(each.key))
    assert not reference.waiting


def test_a_shard_whose_worker_was_lost_is_the_first_of_its_model() -> None:
    schedule = Schedule(independent(["llm:a", "llm:a", "llm:a", "llm:b", ""]), ())
    taken = [schedule.take("llm:a", with_model) for _ in range(2)]
    assert [shard and shard.ref for shard in taken] == [ref(0), ref(1)]
    schedule.put_back(ref(1))
    assert list(schedule.started) == [ref(0)]
    order = [schedule.take("llm:a"), schedule.take("llm:a"), schedule.take("llm:a"), schedule.take("llm:a")]
    assert [shard and shard.ref for shard in order] == [ref(4), ref(1), ref(2), ref(3)]


def test_the_second_outcome_of_a_shard_is_ignored() -> None:
    schedule = Schedule(chain(2), ())
    schedule.take()
    schedule.put_back(ref(0))
    assert schedule.finish(finished(ref(0))) == []  # of the lost worker, before another one has the shard
    schedule.take()
    assert schedule.finish(finished(ref(0))) == [finished(ref(0))]
    assert schedule.finish(failed(ref(0))) == []
    schedule.put_back(ref(0))
    taken = schedule.take()
    assert taken is not None
    assert taken.ref == ref(1)


def test_the_failure_of_the_first_of_10_000_shards_blocks_the_others() -> None:
    schedule = Schedule(chain(10_000), ())
    schedule.take()
    outcomes = schedule.finish(failed(ref(0)))
    assert [each.ref for each in outcomes] == [ref(number) for number in range(10_000)]
    assert [each.blocked for each in outcomes] == [False, *[True] * 9_999]
    assert {each.failure for each in outcomes} == {FAILURE}
    assert schedule.finished
    assert not schedule.unfinished


def grid(slices: int, readers: int) -> Plan:
    """Slices of two LLMs, scores of each by a PRM, and shards without a model that each read all slices and scores."""
    llms = [f"llm:{each}" for each in "ab" for _ in range(slices)]
    rollouts = Refs(map(ref, range(2 * slices)))
    scores = Refs(map(ref, range(2 * slices, 4 * slices)))
    inputs: list[dict[str, tuple[ArtifactRef, ...]]] = [{} for _ in rollouts]
    inputs += [{"rollout": (each,)} for each in rollouts]
    return planned(
        [*inputs, *[{"rollout": rollouts, "score": scores}] * readers],
        [*llms, *["prm:a"] * len(scores), *[""] * readers],
    )


def work_through(plan: Plan, workers: int) -> None:
    schedule, loaded = Schedule(plan, ()), [MODELS[place % 3] for place in range(workers)]
    while not schedule.finished:
        taken = [schedule.take(each) for each in loaded]
        for shard in taken:
            if shard is not None:
                schedule.finish(finished(shard.ref))


@pytest.mark.parametrize("workers", [1, 64])
def test_the_work_grows_with_the_shards(workers: int) -> None:
    small, large = grid(100, 100), grid(800, 800)
    few, many = (calls(partial(work_through, plan, workers)) for plan in (small, large))
    assert few > 500
    assert many < 9 * few
