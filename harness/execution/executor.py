"""An executor computes the shards of a schedule: its contract, and what follows when a shard or a model fails."""

from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.schedule import MOST_TRIES, Event, Notice, Outcome, Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.preflight import plan_problems


class Executor(Protocol):
    """Runs the shards of a schedule."""

    @property
    def on_gpus(self) -> bool:
        """True if models run on GPUs."""

    def run(self, schedule: Schedule) -> Generator[Event]:
        """Yield the outcome of every shard, in any order, and None from time to time while waiting.

        The outcomes include those of shards that depend on a failed shard, which ``schedule.finish`` returns.
        Notices may come between them. All workers end when the generator is closed.
        """


def after_outcome(schedule: Schedule, outcome: Outcome, worker: str) -> list[Outcome | Notice]:
    """Finish a shard, or put it back if its model broke at the worker of this name.

    After two failures in a row, a new process takes the place of the worker. Returns the outcomes and notices to be
    reported.
    """
    if not schedule.tries_again(outcome):
        outcomes = list[Outcome | Notice](schedule.finish(outcome))
        if outcome.failure is not None and schedule.is_trial(outcome.ref):
            outcomes.append(Notice(outcome.failure.reason, urgent=True))
        return outcomes
    assert outcome.failure is not None
    where = f"{worker or 'this machine'} at {outcome.ref.kind}/{outcome.ref.key}"
    tries = f"try {schedule.deaths[outcome.ref]} of {MOST_TRIES}"
    line = f"A model broke on {where} ({tries}). It is tried again."
    return [Notice(line, (outcome.failure.reason, *outcome.log))]


def after_death(
    schedule: Schedule, shard: Shard[Parameters], reason: str, lines: Sequence[str] = ()
) -> list[Outcome | Notice]:
    """Put a shard whose worker died back into the schedule, or let it fail after three tries.

    A worker can die without a fault of its shard, for example when another process uses up the memory.

    `reason` says how its worker died, without a full stop, and `lines` are the last ones that the worker wrote. The
    attribute `deaths` of the schedule counts the tries. Returns the outcomes and notices to be reported.
    """
    schedule.deaths[shard.ref] += 1
    deaths = schedule.deaths[shard.ref]
    if deaths < MOST_TRIES:
        schedule.put_back(shard.ref)
        what = f"{shard.ref.kind}/{shard.ref.key}"
        return [
            Notice(f"{reason} at {what} (try {deaths} of {MOST_TRIES}). It is tried again.", tuple(lines))
        ]
    failure = Failure(f"{reason} at each of {MOST_TRIES} tries.", "crash")
    return list(schedule.finish(Outcome(shard.ref, failure=failure, log=tuple(lines))))


def refused(schedule: Schedule, grid: GridSpec, plan: Plan) -> Iterator[Event]:
    """Yield what follows from the problems of models that were not tried yet, of a grid that was planned just now.

    A model that cannot work is given up, before anything is sampled.
    """
    for each in plan_problems(grid, plan, schedule.untried):
        then = (
            "The run goes on, and asks it again." if each.may_pass else "Its cells fail, and the run goes on."
        )
        yield Notice(f"{each} {then}", urgent=True)
        if not each.may_pass:
            yield from schedule.give_up(f"{each.kind}:{each.name}", Failure(str(each), "input"))
