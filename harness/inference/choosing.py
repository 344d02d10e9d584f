"""The cell of a run that is used: the one that a user names, or the one that a rule chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.query import overview
from prmcal.errors import DatabaseError, RunError
from prmcal.harness.inference.calibration_questions import CalibrationQuestions
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store

RULE = (
    "the LLM that is right most often on the calibration questions, the PRM whose scores tell its right trajectories "
    "there from wrong ones best, and the calibrator that is first in the ranking"
)
"""The rule, as a part of a sentence."""


def _fits_of(plan: Plan) -> list[Job[FitParameters]]:
    """Return the jobs that fit a calibrator, in the order of the plan."""
    jobs: Sequence[Job[Parameters]] = plan.jobs
    return [job for job in jobs if isinstance(job.shards[0].parameters, FitParameters)]  # type: ignore[misc]


def best_fit(
    folder: RunFolder, plan: Plan, store: Store, *, llm: str = "", prm: str = "", calibrator: str = ""
) -> Job[FitParameters]:
    """Return the fit that is used if nobody names a cell, by :data:`RULE`.

    Test questions decide between calibrators only: the ranking is what the leaderboard shows.

    Parameters
    ----------
    folder : RunFolder
    plan : Plan
    store : Store
    llm, prm, calibrator : str
        Names in the grid that are already chosen; empty if not.

    Raises
    ------
    RunError
        If no calibrator with these names is fitted.
    """
    wanted = {"llm": llm, "prm": prm, "calibrator": calibrator}
    fits = [
        job
        for job in _fits_of(plan)
        if all(not name or getattr(job.labels, kind) == name for kind, name in wanted.items())
    ]
    if not fits:
        _refuse(plan, wanted, folder)
    fits = [job for job in fits if store.manifest(job.refs[0].kind, job.refs[0].key) is not None]
    if not fits:
        raise RunError(
            f"No calibrator with these names is fitted yet in {folder.directory}. Run the grid again to continue it."
        )
    fits = _keep(fits, "llm", plan, store)
    fits = _keep(fits, "prm", plan, store)
    return _first_ranked(folder, fits)


def fit_of(cell: Cell, plan: Plan, directory: Path) -> Job[FitParameters]:
    """Return the job that fits the calibrator of a cell."""
    labels = cell.labels
    for fit in _fits_of(plan):
        theirs = fit.labels
        if (theirs.llm, theirs.prm, theirs.calibrator) == (labels.llm, labels.prm, labels.calibrator):
            return fit
    raise RunError(
        f"The cell '{cell.cell_id}' has no calibrator. Choose one that has: `prmcal leaderboard {directory} --table "
        "calibration` lists them."
    )


def _refuse(plan: Plan, wanted: dict[str, str], folder: RunFolder) -> None:
    for kind, name in wanted.items():
        known = list(dict.fromkeys(getattr(job.labels, kind) for job in _fits_of(plan)))
        if not known:
            raise RunError(f"The grid in {folder.directory} fits no calibrator, so there is nothing to use.")
        if name and name not in known:
            raise RunError(
                f"The run in {folder.directory} has no {kind} '{name}'. It has: {', '.join(known)}."
            )
    raise RunError(f"The run in {folder.directory} fits no calibrator for this combination of names.")


def _keep(fits: list[Job[FitParameters]], kind: str, plan: Plan, store: Store) -> list[Job[FitParameters]]:
    """Keep the fits of the best LLM, or of the best PRM."""
    groups: dict[str, list[Job[FitParameters]]] = {}
    for job in fits:
        groups.setdefault(getattr(job.labels, kind), []).append(job)
    if len(groups) == 1:
        return fits
    values = {}
    for name, jobs in groups.items():
        known = CalibrationQuestions.of_run(plan, store, jobs[0].shards[0])
        values[name] = float(known.correct.mean()) if kind == "llm" else _auroc(known.scores, known.correct)
    return groups[max(values, key=lambda name: values[name])]


def _auroc(scores: NDArray[np.float64], correct: NDArray[np.bool_]) -> float:
    """The probability that a right trajectory has a higher score than a wrong one. Equal scores count half."""
    read = np.isfinite(scores)
    right, wrong = np.sort(scores[read & correct]), np.sort(scores[read & ~correct])
    if not len(right) or not len(wrong):
        return 0.5
    below = np.searchsorted(wrong, right, side="left") + np.searchsorted(wrong, right, side="right")
    return float(below.mean() / 2 / len(wrong))


def _first_ranked(folder: RunFolder, fits: list[Job[FitParameters]]) -> Job[FitParameters]:
    by_name = {job.labels.calibrator: job for job in fits}
    if len(by_name) > 1:
        try:
            order = [each.calibrator for each in overview(folder.results()).ranking]
        except DatabaseError:
            order = []
        for name in order:
            if name in by_name:
                return by_name[name]
    # A run without calibration metrics has no ranking. What is fitted there is better than nothing.
    return next((job for job in fits if _plugin_of(job) != "uncalibrated"), fits[0])


def _plugin_of(fit: Job[FitParameters]) -> str:
    return fit.shards[0].parameters.calibrator.plugin
