"""Recommend what to use: choose on calibration questions, report on test questions."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from prmcal.db.catalog import cells
from prmcal.db.metrics import cell_id
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.recommending.drawing import Started, draw, more_draws
from prmcal.harness.recommending.folds import FOLDS
from prmcal.harness.recommending.measured import (
    FIXED,
    Measured,
    candidates,
    known_of,
    tested,
)
from prmcal.harness.recommending.places import Places, RunArtifacts
from prmcal.harness.recommending.types import Choice, Line, MoreDraws, Recommendation, Wanted, WantedKind

_ROUNDING = 1e-9


def ordered(found: Sequence[Measured], wanted: Wanted) -> list[Measured]:
    """Return choices, the one to recommend first.

    With a budget, those within it are ordered by their accuracy, and equal ones by their samples. Others are left out.

    With a wanted accuracy, first come those whose accuracy is at least one standard error above it, the cheapest in
    samples first. The cheapest of many that just reach it would reach it by luck. Then come those whose accuracy is at
    least the wanted one, in the same order. Then come all others, the most accurate first.

    Of equal choices, the given order remains.
    """
    if wanted.kind == "accuracy":
        return sorted(found, key=lambda each: _rank(each, wanted.value))
    within = [each for each in found if affordable(each, wanted)]
    return sorted(within, key=lambda each: (-_rounded(each.accuracy.mean()), _rounded(each.samples.mean())))


def affordable(found: Measured, wanted: Wanted) -> bool:
    """Return whether the mean cost of a choice is within a wanted budget. Every cost is, if an accuracy is wanted."""
    return wanted.kind == "accuracy" or found.cost(wanted.kind) <= wanted.value * (1 + _ROUNDING)


def reaches(found: Measured, wanted: Wanted) -> bool:
    """Return whether a choice reaches the wanted accuracy. A budget is always reached."""
    return wanted.kind != "accuracy" or float(found.accuracy.mean()) >= wanted.value - _ROUNDING


def _rank(found: Measured, wanted: float) -> tuple[float, ...]:
    mean, cost = float(found.accuracy.mean()), float(found.samples.mean())
    if mean - found.accuracy_error >= wanted - _ROUNDING:
        return 0.0, _rounded(cost), -_rounded(mean)
    if mean >= wanted - _ROUNDING:
        return 1.0, _rounded(cost), -_rounded(mean)
    return 2.0, -_rounded(mean), _rounded(cost)


def _rounded(value: float) -> float:
    """Return a number without the rounding errors of sums, so that equal choices compare as equal."""
    return round(float(value), 9)


_OTHER_STRATEGIES = 4
_KINDS = ("llm", "prm", "calibrator", "dataset")


def wanted_of(accuracy: float | None, samples: float | None, tokens: float | None) -> Wanted:
    """Return what is wanted.

    Raises
    ------
    PrmcalError
        Unless exactly one of the three is given, and in its range.
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


def recommend(
    directory: Path,
    wanted: Wanted,
    *,
    filters: Mapping[str, Sequence[str]],
    trajectories: int | None = None,
    workers: int | None = None,
    started: Started = lambda samples, seconds: None,
    stream: TextIO | None = None,
) -> Recommendation:
    """Recommend a strategy with its setting, an LLM, a PRM and a calibrator.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    wanted : Wanted
    filters : mapping of str to sequence of str
        Names to choose from, by llm, prm, calibrator, dataset or strategy.
    trajectories : int, optional
        Draw trajectories of the calibration questions until each has so many.
    workers, started, stream
        As for :func:`prmcal.harness.recommending.drawing.draw`.

    Raises
    ------
    RunError
        If no grid was run in the folder, or nothing that can be chosen is finished.
    PrmcalError
        If a name is unknown, no choice is within the budget, or more trajectories cannot be drawn.
    """
    run = RunArtifacts(directory)
    _check_names(run, filters)
    of_grid = run.references("strategy")
    chosen = candidates(of_grid, filters.get("strategy", ()))
    plain = [each for each in candidates(of_grid, ()) if each.reference.plugin == FIXED][:1]
    every = [*plain, *(each for each in chosen if each.name not in {one.name for one in plain})]
    names = {kind: list(filters.get(kind) or run.names(kind)) for kind in ("llm", "prm")}
    further = {} if trajectories is None else draw(run, names, trajectories, workers, started, stream)
    places = Places(run, filters, further)
    samples = int(wanted.value) if wanted.kind == "samples" else None
    found = list(places.measured(every, samples))
    _check_found(found, places, wanted)
    names_of_chosen = {each.name for each in chosen}
    choosable = [each for each in found if each.candidate.name in names_of_chosen]
    order = ordered(choosable, wanted)
    if not order:
        raise PrmcalError(_unaffordable(choosable, wanted))
    best = order[0]
    fixed = _fixed(found, best, wanted)
    lines = _Lines(run, places, best, fixed.choice.prm)
    known, _ = places.trajectories(best.choice.llm)
    questions, drawn = known.correct.shape
    return Recommendation(
        wanted=wanted,
        recommended=lines.recommended,
        fixed=lines.line(fixed),
        others=tuple(lines.line(each) for each in _others(order, best, fixed)),
        reached=reaches(best, wanted),
        questions=questions,
        trajectories=drawn,
        folds=min(FOLDS, questions),
        choices=len(choosable),
        left_out=tuple(places.left_out),
        in_sample=tuple(places.in_sample),
        more=_more(run, names, wanted, best, drawn, workers),
    )


class _Lines:
    """Make lines: choices with their results on the test questions."""

    def __init__(self, run: RunArtifacts, places: Places, best: Measured, prm: str) -> None:
        self.places, self.prm, self.run = places, prm, run
        self._numbers = dict(cells(run.folder.results())[["cell_id", "number"]].itertuples(index=False))
        self._best = best
        self._of_best: list[NDArray[np.float64]] = []
        self.recommended = self.line(best)

    def line(self, found: Measured) -> Line:
        choice = found.choice
        prm = self.prm if choice.llm == self._best.choice.llm else ""
        tests = []
        for number, questions in enumerate(self.places.tests):
            pool = self.places.test_pool(choice, questions, prm)
            own = None if found is self._best else self._of_best[number]
            result, accuracy = tested(found, pool, self.places.known(choice), own)
            tests.append(result)
            if found is self._best:
                self._of_best.append(accuracy)
        cell = self._cell(choice)
        short = self._numbers.get(cell)
        return Line(choice, known_of(found), tuple(tests), cell, None if short is None else int(short))

    def _cell(self, choice: Choice) -> str:
        """Return the id of the calibration cell of a choice; empty if it has no calibrator."""
        if not choice.calibrator:
            return ""
        ids = [
            cell_id("calibration", choice.llm, test.dataset, prm=choice.prm, calibrator=choice.calibrator)
            for test in self.places.tests
        ]
        return next((each for each in ids if each in self._numbers), "")


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


def _more(
    run: RunArtifacts,
    names: dict[str, list[str]],
    wanted: Wanted,
    best: Measured,
    drawn: int,
    workers: int | None,
) -> MoreDraws | None:
    """Return what drawing more would take, if the trajectories are too few for what is wanted."""
    most = int(run.grid["scaling"]["samples"])
    if wanted.kind == "accuracy":
        needed = drawn if reaches(best, wanted) else most
    elif wanted.kind == "samples":
        needed = math.ceil(wanted.value)
    else:
        assert best.tokens is not None
        needed = math.ceil(wanted.value / (best.tokens.sum() / best.samples.sum()))
    return more_draws(run, names, drawn, min(needed, most), workers)


def _check_names(run: RunArtifacts, filters: Mapping[str, Sequence[str]]) -> None:
    for kind in _KINDS:
        known = run.names(kind)
        for name in filters.get(kind, ()):
            if name not in known:
                close = difflib.get_close_matches(name, known, n=3)
                meant = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
                raise PrmcalError(
                    f"--{kind}: the grid has no {kind} '{name}'. {meant}There are: {', '.join(known)}."
                )


def _check_found(found: Sequence[Measured], places: Places, wanted: Wanted) -> None:
    if not any(each.candidate.reference.plugin == FIXED for each in found):
        reasons = "; ".join(f"{each.name}: {each.reason}" for each in places.left_out)
        raise RunError(
            "Nothing can be chosen, because the run has no finished trajectories and scores of its calibration and "
            f"test questions{f' ({reasons})' if reasons else ''}. Run the grid to its end: prmcal status "
            f"{places.run.folder.directory}"
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


def _unaffordable(found: Sequence[Measured], wanted: Wanted) -> str:
    cheapest = min(found, key=lambda each: each.cost(wanted.kind))
    assert not affordable(cheapest, wanted)
    return (
        f"No choice costs {wanted.text}. The cheapest costs {cheapest.cost(wanted.kind):,.4g} "
        f"({cheapest.choice.strategy} with {cheapest.choice.llm})."
    )
