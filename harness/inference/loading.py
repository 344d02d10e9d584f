"""``prmcal.load``: a calibrated PRM from a run, from a folder that was saved or exported, or from an adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.query import ranking_order
from prmcal.db.queries.cells import cell_number, find_cell, numbered
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import DatabaseError, PrmcalError, RunError
from prmcal.harness.inference import saved_folder
from prmcal.harness.inference.asking import Defaults
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.calibration_questions import CalibrationQuestions
from prmcal.harness.inference.models import Models
from prmcal.harness.inference.rewarding import Rewarder
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters, Parameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.plugins import calibrators, llms, prms

__all__ = ["RULE", "best_fit", "fits_of", "load"]

RULE = (
    "the LLM that is right most often on the calibration questions, the PRM whose scores tell its right trajectories "
    "there from wrong ones best, and the calibrator that is first in the ranking"
)
"""The rule, as a part of a sentence."""


def fits_of(plan: Plan) -> list[Job[FitParameters]]:
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
        for job in fits_of(plan)
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


def _refuse(plan: Plan, wanted: dict[str, str], folder: RunFolder) -> None:
    for kind, name in wanted.items():
        known = list(dict.fromkeys(getattr(job.labels, kind) for job in fits_of(plan)))
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
            order = ranking_order(folder.results())
        except DatabaseError:
            order = []
        for name in order:
            if name in by_name:
                return by_name[name]
    # A run without calibration metrics has no ranking. What is fitted there is better than nothing.
    return next((job for job in fits if _plugin_of(job) != "uncalibrated"), fits[0])


def _plugin_of(fit: Job[FitParameters]) -> str:
    return fit.shards[0].parameters.calibrator.plugin


_STRATEGY = PluginReference("posterior vote", "posterior vote", {})
_TARGET = 0.95
_SAMPLES = 64
_BASE = "Qwen/Qwen2.5-Math-PRM-7B"
_ADAPTER_FILE = "adapter_config.json"


def load(
    source: str | Path,
    cell: str | int | None = None,
    *,
    llm: str | None = None,
    prm: str | None = None,
    calibrator: str | None = None,
) -> CalibratedPRM:
    """Load a calibrated PRM, so that it scores new prefixes and answers new questions. Models are loaded when used.

    Parameters
    ----------
    source : str or Path
        The output folder of a run, a folder of :meth:`CalibratedPRM.save`, a checkpoint of ``prmcal export-prm``, or a
        quantile adapter of the paper's code: a folder, or an id on the Hugging Face hub.
    cell : str or int, optional
        A cell of a run, by its number, its identifier or a part of it. A cell of the scaling leaderboard also gives the
        strategy, its target C and its level. By default it is chosen: the LLM that is right most often on the
        calibration questions, the PRM whose scores tell its right trajectories there from wrong ones best, and the
        calibrator that is first in the ranking.
    llm, prm, calibrator : str, optional
        Names in the grid, which limit the choice. For an adapter, `prm` is the checkpoint of the PRM that it belongs
        to. For a checkpoint or an adapter, `llm` is the checkpoint of an LLM on transformers; without one it only
        scores.

    Returns
    -------
    CalibratedPRM

    Raises
    ------
    PrmcalError
        If there is no such source or cell, the cell has no calibrator, or it is not fitted yet.

    Examples
    --------
    >>> import prmcal
    >>> prm = prmcal.load("runs/demo", llm="nano-weak")  # doctest: +SKIP
    >>> prm.score("What is 6 times 7?", ["6 * 7 = 42."]).point  # doctest: +SKIP
    """
    folder = Path(source).expanduser()
    names = {"llm": llm or "", "prm": prm or "", "calibrator": calibrator or ""}
    if (folder / RECORD_FILE).exists():
        return _of_run(folder, cell, names)
    if cell is not None:
        raise RunError(f"{source} is not the output folder of a run, so it has no cells.")
    if (folder / saved_folder.FILE).exists():
        return saved_folder.load(folder)
    if (folder / _ADAPTER_FILE).exists():
        return _of_adapter(folder, prm or _BASE, llm)
    if (folder / "config.json").exists():
        return _of_checkpoint(folder, llm)
    if not folder.exists() and _may_be_on_hub(str(source)):
        return load(_downloaded(str(source)), llm=llm, prm=prm)
    if not folder.exists():
        raise RunError(
            f"There is no folder {source}. Give the output folder of a run. To start one: prmcal run GRID "
            f"--out {source}"
        )
    raise RunError(
        f"{source} has no run, no saved calibrated PRM, no checkpoint and no adapter. Give the output folder of a run."
    )


def _of_run(directory: Path, name: str | int | None, names: Mapping[str, str]) -> CalibratedPRM:
    folder = RunFolder(directory)
    plan, store = existing_plan(folder), Store(directory)
    cell: Cell | None = None
    if name is None:
        fit = best_fit(folder, plan, store, **names)
        title, chosen_by = str(fit.labels), f"It was chosen by this rule: {RULE}."
    else:
        published = folder.results()
        cell_id = find_cell(published, str(name))
        cell = next((each for each in plan.cells if each.cell_id == cell_id), None)
        if cell is None:
            raise RunError(f"The plan in {directory} has no cell '{cell_id}'. Run the grid again.")
        fit = _fit_of(cell, plan, directory)
        title, chosen_by = f"{cell_number(numbered(published)[cell_id])} {cell_id}", ""
    (shard,) = fit.shards
    if store.manifest(shard.ref.kind, shard.ref.key) is None:
        raise RunError(
            f"The calibrator '{fit.labels.calibrator}' is not fitted yet for this cell. Run the grid again to continue "
            "it."
        )
    load_plugins_of(folder)
    given = shard.parameters
    llm_reference, sampling = _generation(plan, fit)
    fitted = store.folder(shard.ref.kind, shard.ref.key)
    levels = sorted({each.level for each in plan.cells if each.level is not None})
    with plugin_guard("calibrator", given.calibrator.name, "load"):
        loaded = given.calibrator.build(calibrators).load(fitted)
    rewarder = Rewarder(given.prm.build(prms), given.prm.name, loaded, given.calibrator.name, levels)
    models = Models(
        llm_reference.build(llms),
        llm_reference.name,
        rewarder,
        sampling,
        CalibrationQuestions.of_run(plan, store, shard),
    )
    defaults = _defaults(folder, plan, cell, levels)

    def save(target: Path) -> None:
        saved_folder.save(
            target,
            saved_folder.Card(
                name=str(fit.labels),
                llm=llm_reference,
                prm=given.prm,
                calibrator=given.calibrator,
                sampling=sampling,
                levels=tuple(levels),
                strategy=defaults.strategy,
                target=defaults.target,
                level=defaults.level,
                max_samples=defaults.max_samples,
            ),
            fitted,
            models,
        )

    return CalibratedPRM(
        models,
        defaults,
        name=title,
        prm=given.prm.name,
        calibrator=given.calibrator.name,
        chosen_by=chosen_by,
        save=save,
    )


def _fit_of(cell: Cell, plan: Plan, directory: Path) -> Job[FitParameters]:
    """Return the job that fits the calibrator of a cell."""
    labels = cell.labels
    for fit in fits_of(plan):
        theirs = fit.labels
        if (theirs.llm, theirs.prm, theirs.calibrator) == (labels.llm, labels.prm, labels.calibrator):
            return fit
    raise RunError(
        f"The cell '{cell.cell_id}' has no calibrator. Choose one that has: `prmcal leaderboard {directory} --table "
        "calibration` lists them."
    )


def _generation(plan: Plan, fit: Job[FitParameters]) -> tuple[PluginReference, Sampling]:
    """Return the LLM of a fit and how it is sampled."""
    reference = next(each.reference for each in plan.plugins[llms.kind] if each.name == fit.labels.llm)
    for job in plan.jobs:
        sampling = getattr(job.shards[0].parameters, "sampling", None)
        if job.labels.llm == fit.labels.llm and isinstance(sampling, Sampling):
            return reference, sampling
    return reference, Sampling()


def _defaults(folder: RunFolder, plan: Plan, cell: Cell | None, levels: list[float]) -> Defaults:
    known = {each.name: each.reference for each in plan.plugins.get("strategy", ())}
    samples = [
        getattr(job.shards[0].parameters, "samples", 0)
        for job in plan.jobs
        if job.kind in ("strategy", "league")
    ]
    strategy = known.get("posterior vote", _STRATEGY)
    target: float | None = _TARGET
    level = levels[0] if levels else None
    if cell is not None and cell.strategy:
        strategy = known[cell.strategy]
        target, level = cell.target, cell.level if cell.level is not None else level
    return Defaults(strategy, target, level, max(samples, default=_SAMPLES), known)


def _of_checkpoint(folder: Path, llm: str | None) -> CalibratedPRM:
    """A checkpoint of ``prmcal export-prm``, whose outputs are the quantiles."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not config.get("levels"):
        raise PrmcalError(
            f"{folder} is a checkpoint without quantiles. Give one that `prmcal export-prm` wrote, or a run."
        )
    prm = prms.create("qwen", checkpoint=str(folder))
    return _without_run(
        Rewarder(prm, folder.name, None, "export-prm"), llm, str(folder), "qwen", "export-prm"
    )


def _of_adapter(folder: Path, base: str, llm: str | None) -> CalibratedPRM:
    from prmcal.registry.calibrators.lora.adapter import QuantileAdapter

    prm = prms.create("qwen", checkpoint=base)
    calibrator = calibrators.create("quantile-adapter", adapter=str(folder))
    assert isinstance(calibrator, QuantileAdapter)
    with plugin_guard("calibrator", "quantile-adapter", "load"):
        calibrator.restore(prm)
    rewarder = Rewarder(prm, base, calibrator, "quantile-adapter")
    return _without_run(rewarder, llm, str(folder), base, "quantile-adapter")


def _without_run(rewarder: Rewarder, llm: str | None, name: str, prm: str, calibrator: str) -> CalibratedPRM:
    """Without calibration questions nothing is tuned, so the strategy is the paper's."""
    built = None if llm is None else llms.create("transformers", checkpoint=llm)
    strategy = PluginReference("best-of-n + IAS", "best-of-n + IAS", {})
    models = Models(built, llm or "", rewarder, Sampling(max_tokens=2048), None)
    defaults = Defaults(strategy, 0.99, rewarder.levels[0], _SAMPLES, {})
    return CalibratedPRM(models, defaults, name=name, prm=prm, calibrator=calibrator)


def _may_be_on_hub(source: str) -> bool:
    parts = source.partition("@")[0].split("/")
    return len(parts) == 2 and all(parts) and not source.startswith((".", "~"))


def _downloaded(source: str) -> Path:
    from huggingface_hub import snapshot_download

    name, _, revision = source.partition("@")
    try:
        return Path(
            snapshot_download(
                name,
                revision=revision or None,
                allow_patterns=["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"],
            )
        )
    except Exception as error:  # The errors of the hub and of the network have no common base class.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunError(
            f"There is no folder {source}, and it cannot be downloaded from the Hugging Face hub ({reason}). Give the "
            "output folder of a run, or an id on the hub."
        ) from error
