"""More trajectories of the calibration questions: planned as the grid plans its own, and run by the same executor.

They are artifacts of the run's folder, beside those of the grid. The first trajectories are those of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from prmcal.errors import PrmcalError, RunError
from prmcal.harness.execution.machine import default_workers
from prmcal.harness.execution.run import run_further
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.chain import Chain
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.resolved import ResolvedGrid, resolve
from prmcal.harness.recommending.places import Further, RunArtifacts
from prmcal.harness.recommending.types import MoreDraws
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.models import LLM
from prmcal.registry.plugins import llms

Started = Callable[[int, float | None], None]
"""It takes, before the drawing, the number of trajectories to sample and the estimated seconds."""


def draw(
    run: RunArtifacts,
    wanted: dict[str, list[str]],
    trajectories: int,
    workers: int | None,
    started: Started,
    stream: TextIO | None,
) -> Further:
    """Draw trajectories of the calibration questions until each has `trajectories`, and score them.

    Finished shards are reused, so an interrupted drawing continues where it stopped.

    Parameters
    ----------
    run : RunArtifacts
    wanted : dict of str to list of str
        The LLMs ("llm") and the PRMs ("prm") to draw with.
    trajectories : int
    workers : int or None
        Worker processes; by default as for a run.
    started : callable
        See :data:`Started`. It is not called if everything is drawn.
    stream : text file or None
        Where the progress is written; by default standard error.

    Raises
    ------
    PrmcalError
        If an LLM cannot draw more, the models or the data have changed since the run, or a shard failed.
    RunError
        If a run holds the lock of the folder.
    """
    _check(run, wanted["llm"], trajectories)
    grid = grid_of(run.grid, f"The grid in {run.folder.directory}")
    resolved = resolve(grid)
    jobs, further = _planned(run, resolved, wanted, trajectories)
    plan = Plan(
        tuple(jobs),
        (),
        resolved.plugins,
        tuple(each.planned for each in resolved.datasets),
    )
    refs = [shard.ref for shard in plan.shards()]
    if len(run.store.manifests(refs, verify=False)) < len(refs):
        with run.folder.lock():
            try:
                run_further(plan, run.folder, run.record, workers or default_workers(grid), started, stream)
            except PrmcalError as error:
                raise type(error)(f"More trajectories could not be drawn: {error}") from error
    return further


def more_draws(
    run: RunArtifacts, names: dict[str, list[str]], known: int, trajectories: int, workers: int | None
) -> MoreDraws | None:
    """Return how long it takes to draw more trajectories with some LLMs and PRMs; None if this is not possible.

    The time follows from the rollouts and scores of the run, of calibration and of test questions.
    """
    if trajectories <= known or any(_obstacle(run, llm) for llm in names["llm"]):
        return None
    questions = next(
        len(each.questions)
        for each in run.plan.datasets
        if (each.name, each.split) == (run.calibration.dataset, run.calibration.split)
    )
    seconds = 0.0
    for llm in names["llm"]:
        for kind, prms in (("rollout", [""]), ("score", _scored_by(run, llm, names["prm"]))):
            for prm in prms:
                refs = [
                    ref
                    for each in (run.calibration, *run.tests)
                    for job in run.jobs([kind], each, llm, prm)
                    for ref in job.refs
                ]
                found = list(run.store.manifests(refs, verify=False).values())
                found = [each for each in found if not each.loading] or found
                if not found:
                    return MoreDraws(trajectories, None)
                rate = sum(each.seconds for each in found) / sum(each.size for each in found)
                seconds += rate * questions * (trajectories - known)
    count = workers or default_workers(grid_of(run.grid, f"The grid in {run.folder.directory}"))
    return MoreDraws(trajectories, seconds / count)


def _check(run: RunArtifacts, names: Sequence[str], trajectories: int) -> None:
    most = int(run.grid["scaling"]["samples"])
    if trajectories > most:
        raise PrmcalError(
            f"--draw must be at most {most}, the samples of a test question, since larger budgets could not be "
            f"reported. Got {trajectories}. Raise scaling.samples in the grid file and run it again."
        )
    for name in names:
        obstacle = _obstacle(run, name)
        if obstacle:
            raise PrmcalError(f"--draw: {obstacle}")


def _obstacle(run: RunArtifacts, llm: str) -> str:
    """Say why an LLM cannot draw more trajectories of the calibration questions; empty if it can."""
    if run.jobs(["imported"], run.calibration, llm):
        return (
            f"the calibration trajectories of '{llm}' are published ones, so no more can be drawn. "
            "Leave out --draw."
        )
    plugin: type[LLM] = llms.get(run.reference("llm", llm).plugin)
    if plugin.repeats:
        return (
            f"the LLM '{llm}' gives the same completions again, such as recorded ones, so no more can be drawn. "
            "Leave out --draw, or raise calibration.trajectories in the grid file and run it again."
        )
    return ""


def _scored_by(run: RunArtifacts, llm: str, prms: Sequence[str]) -> list[str]:
    """Return the PRMs whose scores of the trajectories of an LLM are finished."""
    places = (run.calibration, *run.tests)
    return [prm for prm in prms if all(run.jobs(["score"], each, llm, prm) for each in places)]


def _planned(
    run: RunArtifacts, resolved: ResolvedGrid, wanted: dict[str, list[str]], trajectories: int
) -> tuple[list[Job[Parameters]], Further]:
    grid, data = resolved.spec, resolved.calibration
    own = grid.calibration.trajectories
    chain = Chain(resolved)
    further: dict[tuple[str, str], Sequence[ArtifactRef]] = {}
    for llm in (each for each in resolved.llms if each.name in wanted["llm"]):
        (known,) = run.jobs(["rollout"], run.calibration, llm.name)[:1] or (None,)
        if known is None:
            raise RunError(
                f"The calibration trajectories of '{llm.name}' are not finished. Run the grid to its end first."
            )
        if known.refs != Chain(resolved).rollout(llm, data, chain.blocks(own)).refs:
            raise RunError(
                f"The LLM '{llm.name}', the calibration questions or their grader have changed since the run, so more "
                "trajectories would not belong to the others. Run the grid again."
            )
        if trajectories <= own:
            continue
        rollout = chain.rollout(llm, data, _further(own, trajectories, grid.shards.trajectories))
        further[llm.name, ""] = rollout.refs
        for prm in (each for each in resolved.prms if each.name in _scored_by(run, llm.name, wanted["prm"])):
            further[llm.name, prm.name] = chain.score(prm, rollout).refs
    return chain.jobs, further


def _further(drawn: int, trajectories: int, most: int) -> list[range]:
    """Return the trajectories after the first `drawn` ones in blocks, of at most `most`, which double their number.

    So a job that stops at 32 and one that stops at 64 share what both have.
    """
    blocks = []
    while drawn < trajectories:
        last = min(2 * drawn, drawn + most, trajectories)
        blocks.append(range(drawn, last))
        drawn = last
    return blocks
