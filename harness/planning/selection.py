"""Parts of a plan: some of its cells, and every job that they need. The keys are those of the whole plan."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

from prmcal.errors import GridError
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Cell, Plan

__all__ = ["Only", "cells_with", "part_of"]

Only = Mapping[str, Sequence[str]]
"""Names in the grid by their kind: llm, prm, calibrator, dataset or strategy."""

_KINDS = ("llm", "prm", "calibrator", "dataset", "strategy")


def cells_with(plan: Plan, only: Only) -> list[Cell]:
    """Return the cells of a plan that have certain names.

    Parameters
    ----------
    plan : Plan
    only : mapping of str to sequence of str
        For each kind, a cell must have one of the names. Without kinds, all cells are returned.

    Raises
    ------
    GridError
        If no cell has such a name, or a combination of them.
    """
    for kind, names in only.items():
        _check(plan, kind, names)
    found = [cell for cell in plan.cells if all(_name(cell, kind) in names for kind, names in only.items())]
    if not found:
        wanted = ", ".join(f"{kind} {' or '.join(names)}" for kind, names in only.items())
        raise GridError(f"No cell of the grid has all of: {wanted}.")
    return found


def part_of(plan: Plan, cells: Collection[Cell]) -> Plan:
    """Return the part of a plan that computes some of its cells; the plan itself for all of them.

    It has all jobs that the cells need. It also has the jobs that no cell needs, such as those of curves, if they read
    nothing else.
    """
    if len(cells) == len(plan.cells):
        return plan
    needed = _with_inputs(cell.job for cell in cells)
    read = {source.key for job in plan.jobs for source in job.inputs} | {cell.job.key for cell in plan.cells}
    jobs = [
        job
        for job in plan.jobs
        if job.key in needed or (job.key not in read and all(each.key in needed for each in job.inputs))
    ]
    absent = _absent(plan, jobs)
    return Plan(
        tuple(jobs), tuple(cells), plan.plugins, plan.datasets, plan.metrics, absent, plan.model_seconds
    )


def _check(plan: Plan, kind: str, names: Sequence[str]) -> None:
    if kind not in _KINDS:
        raise GridError(f"A part of a grid is chosen by {', '.join(_KINDS)}. Got '{kind}'.")
    known = dict.fromkeys(name for cell in plan.cells if (name := _name(cell, kind)))
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(known) or 'none'}."
            raise GridError(f"The grid has no {kind} '{name}'. {hint}")


def _name(cell: Cell, kind: str) -> str:
    """Return the name of a kind in a cell; empty if the cell has none."""
    name: str = cell.strategy if kind == "strategy" else getattr(cell.labels, kind)
    return name


def _with_inputs(jobs: Iterable[Job[Parameters]]) -> set[str]:
    """Return the keys of jobs and of all jobs that they need."""
    found: set[str] = set()
    waiting = list(jobs)
    while waiting:
        job = waiting.pop()
        if job.key not in found:
            found.add(job.key)
            waiting += job.inputs
    return found


def _absent(plan: Plan, jobs: Iterable[Job[Parameters]]) -> tuple[str, ...]:
    """Return the models and the data of some jobs that are not on this machine."""
    labels = [job.labels for job in jobs]
    models = {"llm": {each.llm for each in labels}, "prm": {each.prm for each in labels}}
    used = {each.dataset for each in labels} | {
        plugin.absent
        for kind, names in models.items()
        for plugin in plan.plugins[kind]
        if plugin.name in names
    }
    return tuple(name for name in plan.absent if name in used)
