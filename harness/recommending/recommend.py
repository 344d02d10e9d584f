"""Recommend what to use: choose on calibration questions, report on test questions, and draw more of the former.

Further trajectories are planned as the grid plans its own, and run by the same executor. They are artifacts of the
run's folder, beside those of the grid.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from prmcal.arrays import Floats
from prmcal.db.catalog import cells
from prmcal.db.metrics import cell_id
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.execution.machine import default_workers
from prmcal.harness.execution.run import run_further
from prmcal.harness.jobs.job import Job
from prmcal.harness.planning.chain import Chain
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.resolved import ResolvedGrid, resolve
from prmcal.harness.recommending.measured import FIXED, FOLDS, SAFE, Measured, candidates, results_of, tested
from prmcal.harness.recommending.places import Further, Places, Questions
from prmcal.harness.recommending.types import Line, Recommendation, Wanted, WantedKind
from prmcal.registry.contracts.models import LLM
from prmcal.registry.plugins import llms

_ROUNDING = 1e-9


def ordered(found: Sequence[Measured], wanted: Wanted) -> list[Measured]:
    """Return choices, the one to recommend first.

    With a budget, those within it are ordered by their accuracy, and equal ones by their samples. Others are left out.

    With a wanted accuracy, first come those whose accuracy is at least one standard error above it, the cheapest in
    samples first. The cheapest of many that just reach it would reach it by luck. Then come those whose accuracy is at
    least the wanted one, in the same order. Then come all others, the most accurate first.

    Of equal choices, the given order remains.
    """
    within = found
    if wanted.kind != "accuracy":
        within = [each for each in found if each.cost(wanted.kind) <= wanted.value * (1 + _ROUNDING)]
    return sorted(within, key=partial(_rank, wanted))


def reaches(found: Measured, wanted: Wanted) -> bool:
    """Return whether a choice reaches the wanted accuracy. A budget is always reached."""
    return wanted.kind != "accuracy" or float(found.accuracy.mean()) >= wanted.value - _ROUNDING


def _rank(wanted: Wanted, found: Measured) -> tuple[float, ...]:
    # Without the rounding errors of sums, equal choices compare as equal.
    mean, cost = round(float(found.accuracy.mean()), 9), round(float(found.samples.mean()), 9)
    if wanted.kind != "accuracy" or not reaches(found, wanted):
        return 2.0, -mean, cost
    sure = mean - found.accuracy_error >= wanted.value - _ROUNDING
    return 0.0 if sure else 1.0, cost, -mean


_OTHER_STRATEGIES = 4


def wanted_of(accuracy: float | None, samples: float | None, tokens: float | None) -> Wanted:
    """Return what is wanted.

    Raises a PrmcalError unless exactly one of the three is given, and in its range.
    """
    asked: dict[WantedKind, float | None] = {"accuracy": accuracy, "samples": samples, "tokens": tokens}
    given = [Wanted(kind, value) for kind, value in asked.items() if value is not None]
    if len(given) != 1:
        raise PrmcalError(
            "Say what you want with exactly one of --accuracy, --samples and --tokens, such as --samples 8."
        )
    (wanted,) = given
    if wanted.kind == "accuracy" and not 0 < wanted.value < 1:
        raise PrmcalError(f"--accuracy must be a number between 0 and 1, such as 0.9. Got {wanted.value:g}.")
    if wanted.kind != "accuracy" and not 1 <= wanted.value < math.inf:
        raise PrmcalError(f"--{wanted.kind} must be a number of at least 1. Got {wanted.value:g}.")
    return wanted


Started = Callable[[int, float | None], None]
"""It takes, before the drawing, the number of trajectories to sample and the estimated seconds."""


def recommend(
    directory: Path,
    wanted: Wanted,
    *,
    filters: Mapping[str, Sequence[str]],
    trajectories: int | None = None,
    workers: int | None = None,
    started: Started = lambda samples, seconds: None,
) -> Recommendation:
    """Recommend a strategy with its setting, an LLM, a PRM and a calibrator.

    It is ``safe choice``, unless strategies are named, it does not reach the wanted accuracy, or more trajectories were
    drawn, with which no strategy is tuned.

    `filters` has names to choose from, by llm, prm, calibrator, dataset or strategy. With `trajectories`, trajectories
    of the calibration questions are drawn until each has so many; `workers` and `started` are as for :func:`draw`.

    Raises a RunError if no grid was run in the folder, or nothing that can be chosen is finished. Raises a PrmcalError
    if a name is unknown, no choice is within the budget, or more trajectories cannot be drawn.
    """
    places = Places(directory, filters)
    places.plan.cells_with({kind: names for kind, names in filters.items() if kind != "strategy"})
    of_grid = [each.reference for each in places.plan.plugins.get("strategy", ())]
    every = candidates(of_grid, filters.get("strategy", ()))
    if trajectories is not None:
        places.further = draw(places, trajectories, workers, started)
    samples = int(wanted.value) if wanted.kind == "samples" else None
    found = list(places.measured(every, samples))
    _check_found(found, places, wanted)
    choosable = [each for each in found if each.candidate.wanted]
    order = ordered(choosable, wanted)
    if not order:
        cheapest = min(choosable, key=lambda each: each.cost(wanted.kind))
        raise PrmcalError(
            f"No choice costs {wanted.text}. The cheapest costs {cheapest.cost(wanted.kind):,.4g} "
            f"({cheapest.choice.strategy} with {cheapest.choice.llm})."
        )
    safe = [each for each in order if each.candidate.reference.plugin == SAFE and reaches(each, wanted)]
    # Strategies are tuned with the run's own trajectories, so the promise knows nothing of more that were drawn.
    promised = bool(safe) and not filters.get("strategy") and not places.further
    best = safe[0] if promised else order[0]
    fixed = _fixed(found, best, wanted)
    recommended, *others = _lines(places, [best, fixed, *_others(order, best, fixed)], fixed.choice.prm)
    known, _ = places.trajectories(best.choice.llm)
    questions, drawn = known.correct.shape
    return Recommendation(
        wanted=wanted,
        recommended=recommended,
        fixed=others[0],
        others=tuple(others[1:]),
        reached=reaches(best, wanted),
        questions=questions,
        trajectories=drawn,
        folds=min(FOLDS, questions),
        choices=len(choosable),
        left_out=tuple(places.left_out),
        in_sample=tuple(places.in_sample),
        more=_more(places, wanted, best, drawn),
    )


def _lines(places: Places, chosen: Sequence[Measured], prm: str) -> Iterator[Line]:
    """Yield choices with their results on the test questions, compared with the first one.

    A choice without a PRM is compared with the best-of-n of `prm`, that of the first LLM.
    """
    numbers = dict(cells(places.folder.results())[["cell_id", "number"]].itertuples(index=False))
    first = chosen[0]
    of_first: dict[Questions, Floats] = {}
    for found in chosen:
        choice = found.choice
        own = prm if choice.llm == first.choice.llm else ""
        tests = []
        for questions in places.tests:
            data = places.tested(choice, questions, own)
            known, baseline = places.known(choice), None if found is first else of_first[questions]
            result, accuracy = tested(found, questions.dataset, *data, known, baseline)
            tests.append(result)
            if found is first:
                of_first[questions] = accuracy
        cell = ""
        if choice.calibrator:
            ids = [
                cell_id("calibration", choice.llm, test.dataset, prm=choice.prm, calibrator=choice.calibrator)
                for test in places.tests
            ]
            cell = next((each for each in ids if each in numbers), "")
        number = int(numbers[cell]) if cell else None
        yield Line(choice, results_of(found, choice.fixed), tuple(tests), cell, number)


def _fixed(found: Sequence[Measured], best: Measured, wanted: Wanted) -> Measured:
    """Return the best-of-n that would be chosen with the same LLM, and with the same PRM if the best choice has one."""
    alike = [
        each
        for each in found
        if each.candidate.reference.plugin == FIXED
        and each.choice.llm == best.choice.llm
        and best.choice.prm in ("", each.choice.prm)
    ]
    return ordered(alike, wanted)[0]


def _others(order: Sequence[Measured], best: Measured, fixed: Measured) -> list[Measured]:
    """Return the best settings of other strategies with the same LLM, and the best choices of other LLMs."""
    strategies, llms = {best.choice.strategy, fixed.choice.strategy}, {best.choice.llm}
    found = []
    for each in order:
        choice = each.choice
        if choice.llm == best.choice.llm:
            if choice.strategy not in strategies and len(strategies) < _OTHER_STRATEGIES + 2:
                strategies.add(choice.strategy)
                found.append(each)
        elif choice.llm not in llms:
            llms.add(choice.llm)
            found.append(each)
    return found


def _more(places: Places, wanted: Wanted, best: Measured, drawn: int) -> int | None:
    """Return how many trajectories should be drawn, if they are too few for what is wanted and more can be drawn."""
    if wanted.kind == "accuracy":
        needed = drawn if reaches(best, wanted) else places.most
    elif wanted.kind == "samples":
        needed = math.ceil(wanted.value)
    else:
        assert best.tokens is not None
        needed = math.ceil(wanted.value / (best.tokens.sum() / best.samples.sum()))
    needed = min(needed, places.most)
    possible = needed > drawn and not any(obstacle_of(places, llm) for llm in places.names("llm"))
    return needed if possible else None


def _check_found(found: Sequence[Measured], places: Places, wanted: Wanted) -> None:
    if not any(each.candidate.reference.plugin == FIXED for each in found):
        reasons = "; ".join(f"{each.name}: {each.reason}" for each in places.left_out)
        raise RunError(
            "Nothing can be chosen, because the run has no finished trajectories and scores of its calibration and "
            f"test questions{f' ({reasons})' if reasons else ''}. Run the grid to its end: prmcal status "
            f"{places.folder.directory}"
        )
    if any(len(each.accuracy) < 2 for each in found):
        raise RunError(
            "A choice needs at least 2 calibration questions. Raise calibration.questions in the grid."
        )
    if wanted.kind == "tokens" and any(each.tokens is None for each in found):
        names = ", ".join(sorted({each.choice.llm for each in found if each.tokens is None}))
        raise PrmcalError(
            f"--tokens: the tokens of the calibration trajectories are not known for {names}. Use --samples."
        )


def draw(places: Places, trajectories: int, workers: int | None, started: Started) -> Further:
    """Draw trajectories of the calibration questions until each has `trajectories`, and score them.

    Finished shards are reused, so an interrupted drawing continues where it stopped. `workers` processes draw, by
    default as many as for a run. `started` is not called if everything is drawn.

    Raises a PrmcalError if an LLM cannot draw more, the models or the data have changed since the run, a shard failed,
    or a run holds the lock of the folder.
    """
    if trajectories > places.most:
        raise PrmcalError(
            f"--draw must be at most {places.most}, the samples of a test question, since larger budgets could not be "
            f"reported. Got {trajectories}. Raise scaling.samples in the grid file and run it again."
        )
    for name in places.names("llm"):
        if obstacle := obstacle_of(places, name):
            raise PrmcalError(f"--draw: {obstacle}")
    resolved = resolve(places.grid)
    jobs = _planned(places, resolved, trajectories)
    plan = Plan(tuple(jobs.values()), (), resolved.plugins, tuple(each.planned for each in resolved.datasets))
    refs = [shard.ref for shard in plan.shards()]
    if len(places.store.manifests(refs, verify=False)) < len(refs):
        with places.folder.lock():
            try:
                count = workers or default_workers()
                run_further(plan, places.folder, places.record, count, started)
            except PrmcalError as error:
                raise type(error)(f"More trajectories could not be drawn: {error}") from error
    return {place: job.refs for place, job in jobs.items()}


def obstacle_of(places: Places, llm: str) -> str:
    """Say why an LLM cannot draw more trajectories of the calibration questions; empty if it can."""
    if places.jobs(["imported"], places.calibration, llm):
        return f"the calibration trajectories of '{llm}' are published ones, so no more can be drawn. Leave out --draw."
    plugin: type[LLM] = llms.get(places.reference("llm", llm).plugin)
    if plugin.repeats:
        return (
            f"the LLM '{llm}' gives the same completions again, such as recorded ones, so no more can be drawn. "
            "Leave out --draw, or raise calibration.trajectories in the grid file and run it again."
        )
    return ""


def _planned(places: Places, resolved: ResolvedGrid, trajectories: int) -> dict[tuple[str, str], Job[Any]]:
    """Return the jobs by their LLM and PRM; "" for the rollouts."""
    data, own = resolved.calibration, resolved.spec.calibration.trajectories
    chain = Chain(resolved)
    jobs: dict[tuple[str, str], Job[Any]] = {}
    for llm in (each for each in resolved.llms if each.name in places.names("llm")):
        known = places.jobs(["rollout"], places.calibration, llm.name)
        if not known:
            raise RunError(
                f"The calibration trajectories of '{llm.name}' are not finished. Run the grid to its end first."
            )
        if known[0].refs != chain.rollout(llm, data, chain.blocks(own, llm)).refs:
            raise RunError(
                f"The LLM '{llm.name}', the calibration questions or their grader have changed since the run, so more "
                "trajectories would not belong to the others. Run the grid again."
            )
        blocks = _further(own, trajectories, resolved.spec.shards.block)
        if blocks:
            jobs[llm.name, ""] = rollout = chain.rollout(llm, data, blocks)
            for prm in resolved.prms:
                if prm.name in places.names("prm") and places.is_finished(["score"], llm.name, prm.name):
                    jobs[llm.name, prm.name] = chain.score(prm, rollout)
    return jobs


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
