"""``prmcal.load``: a calibrated PRM from a run, from a folder that was saved or exported, or from an adapter.

If nobody names a cell of a run, a rule chooses one.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from prmcal.db.metrics import cell_number
from prmcal.db.overview.query import ranked_calibrators
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import DatabaseError, InvalidArgumentsError, PrmcalError, RunError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.calibration_questions import CalibrationQuestions
from prmcal.harness.inference.models import Answerer, Card, ExportedQuantiles
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import (
    FitParameters,
    GeneratingParameters,
    LeagueParameters,
    PluginReference,
    RolloutParameters,
    StrategyParameters,
)
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.grading.extraction import MARKED, Ways
from prmcal.registry.models.checkpoints import resolve_checkpoint
from prmcal.registry.plugins import calibrators, datasets

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

    Raises a PrmcalError if there is no such source or cell, the cell has no calibrator, or it is not fitted yet.

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
    if (saved := Answerer.saved_in(folder)) is not None:
        return CalibratedPRM(saved, f"{folder} ({saved.card.name})")
    if (folder / _ADAPTER_FILE).exists():
        return _of_adapter(folder, prm or _BASE, llm)
    if (folder / "config.json").exists():
        return _of_checkpoint(folder, llm)
    if folder.exists():
        raise RunError(f"{source} has no run, no saved calibrated PRM, no checkpoint and no adapter.")
    parts = str(source).partition("@")[0].split("/")
    if len(parts) == 2 and all(parts) and not str(source).startswith((".", "~")):  # It may be on the hub.
        try:
            return load(resolve_checkpoint(str(source)), llm=llm, prm=prm)
        except InvalidArgumentsError as error:
            raise RunError(f"There is no folder {source}. {error}") from error
    raise RunError(
        f"There is no folder {source}. Give the output folder of a run. To start one: prmcal run GRID --out {source}"
    )


def _of_run(directory: Path, name: str | int | None, names: Mapping[str, str]) -> CalibratedPRM:
    folder = RunFolder(directory)
    plan, store = existing_plan(folder), Store(directory)
    cell: Cell | None = None
    if name is None:
        fit = best_fit(folder, plan, store, names)
        title, chosen_by = str(fit.labels), f"It was chosen by this rule: {RULE}."
    else:
        published = folder.results()
        cell_id = find_cell(published, str(name))
        cell = next((each for each in plan.cells if each.cell_id == cell_id), None)
        if cell is None:
            raise RunError(f"The plan in {directory} has no cell '{cell_id}'. Run the grid again.")
        fit = fit_of(cell, plan, directory)
        title, chosen_by = f"{cell_number(numbered(published)[cell_id])} {cell_id}", ""
    (shard,) = fit.shards
    if store.manifest(shard.ref) is None:
        raise RunError(
            f"The calibrator '{fit.labels.calibrator}' is not fitted yet for this cell. Run the grid again to continue "
            "it."
        )
    load_plugins_of(folder)
    fitted = store.folder(shard.ref)
    models = Answerer.fitted_in(
        _card(plan, fit, cell), fitted, CalibrationQuestions.of_run(plan, store, shard)
    )
    return CalibratedPRM(models, title, chosen_by)


def _ways(plan: Plan, llm: PluginReference) -> Ways:
    """Return where the answers of an LLM stand: as its argument says, or else its data set."""
    data = [
        job.shards[0].parameters.data.dataset
        for job in plan.jobs_of(RolloutParameters)
        if job.labels.llm == llm.name
    ]
    stated = llm.arguments.get("answers") or next((each.arguments.get("answers") for each in data), None)
    return stated or (datasets.get(data[0].plugin).answers if data else MARKED)


def _card(plan: Plan, fit: Job[FitParameters], cell: Cell | None) -> Card:
    """Return the models of a fit, with the strategy and the settings of its cell or of the grid."""
    given = fit.shards[0].parameters
    llm = fit.labels.llm
    samplings = [
        job.shards[0].parameters.sampling
        for job in plan.jobs_of(GeneratingParameters)
        if job.labels.llm == llm
    ]
    samples = [job.shards[0].parameters.samples for job in plan.jobs_of(StrategyParameters)]
    samples += [job.shards[0].parameters.samples for job in plan.jobs_of(LeagueParameters)]
    known = {each.name: each.reference for each in plan.plugins.get("strategy", ())}
    levels = sorted({each.level for each in plan.cells if each.level is not None})
    strategy = known.get("safe choice", PluginReference("safe choice", "safe choice", {}))
    target: float | None = 0.95
    level = levels[0] if levels else None
    if cell is not None and cell.strategy:
        strategy, target = known[cell.strategy], cell.target
        level = level if cell.level is None else cell.level
    reference = next(each.reference for each in plan.plugins["llm"] if each.name == llm)
    return Card(
        name=str(fit.labels),
        llm=reference,
        prm=given.prm,
        calibrator=given.calibrator,
        strategy=strategy,
        target=target,
        level=level,
        max_samples=max(samples, default=64),
        sampling=samplings[0] if samplings else Sampling(),
        levels=tuple(levels),
        ways=_ways(plan, reference),
        known=known,
    )


def _of_checkpoint(folder: Path, llm: str | None) -> CalibratedPRM:
    """A checkpoint of ``prmcal export-prm``, whose outputs are the quantiles."""
    levels = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("levels")
    if not levels:
        raise PrmcalError(
            f"{folder} is a checkpoint without quantiles. Give one that `prmcal export-prm` wrote, or a run."
        )
    models, prm = Models(), PluginReference("qwen", "qwen", {"checkpoint": str(folder)})
    calibrator = ExportedQuantiles(lambda: models.prm(prm, beside=True), tuple(map(float, levels)))
    return _without_run(models, prm, calibrator, "export-prm", llm, str(folder))


def _of_adapter(folder: Path, base: str, llm: str | None) -> CalibratedPRM:
    """A quantile adapter of the paper's code."""
    from prmcal.registry.calibrators.lora.adapter import QuantileAdapter

    models, prm = Models(), PluginReference(base, "qwen", {"checkpoint": base})
    calibrator = calibrators.create("quantile-adapter", adapter=str(folder))
    assert isinstance(calibrator, QuantileAdapter)
    with plugin_guard("calibrator", "quantile-adapter", "load"):
        calibrator.restore(models.prm(prm))
    return _without_run(models, prm, calibrator, "quantile-adapter", llm, str(folder))


def _without_run(
    models: Models, prm: PluginReference, calibrator: Calibrator, kind: str, llm: str | None, name: str
) -> CalibratedPRM:
    """Without calibration questions nothing is tuned, so the strategy is the paper's."""
    card = Card(
        name,
        None if llm is None else PluginReference(llm, "transformers", {"checkpoint": llm}),
        prm,
        PluginReference(kind, kind, {}),
        PluginReference("best-of-n + IAS", "best-of-n + IAS", {}),
        target=0.99,
        level=calibrator.levels[0],
        sampling=Sampling(max_tokens=2048),
    )
    return CalibratedPRM(Answerer(card, models, calibrator), name)


RULE = (
    "the LLM that is right most often on the calibration questions, the PRM whose scores tell its right trajectories "
    "there from wrong ones best, and the calibrator that is first in the ranking on test questions, so that its "
    "results on them are rather too good"
)
"""The rule, as a part of a sentence."""


def best_fit(folder: RunFolder, plan: Plan, store: Store, names: Mapping[str, str]) -> Job[FitParameters]:
    """Return the fit that is used if nobody names a cell, by :data:`RULE`.

    Test questions decide between calibrators only: the ranking is what the leaderboard shows.

    `names` has the LLM, the PRM and the calibrator that are already chosen, by their kind; empty if not. Raise RunError
    if no calibrator with these names is fitted.
    """
    fits = plan.jobs_of(FitParameters)
    if not fits:
        raise RunError(f"The grid in {folder.directory} fits no calibrator, so there is nothing to use.")
    for kind, name in names.items():
        found = [job for job in fits if getattr(job.labels, kind) == name] if name else fits
        if not found:
            known = ", ".join(dict.fromkeys(getattr(job.labels, kind) for job in fits))
            raise RunError(f"The run in {folder.directory} has no {kind} '{name}'. It has: {known}.")
        fits = found
    fits = [job for job in fits if store.manifest(job.refs[0]) is not None]
    if not fits:
        raise RunError(
            f"No calibrator with these names is fitted yet in {folder.directory}. Run the grid again to continue it."
        )
    for kind, quality in (("llm", lambda pool: pool.correct.mean()), ("prm", _auroc)):
        first = {getattr(job.labels, kind): job for job in reversed(fits)}
        if len(first) > 1:
            values = {
                name: quality(CalibrationQuestions.of_run(plan, store, job.shards[0]).pool)
                for name, job in reversed(first.items())
            }
            best = max(values, key=lambda name: values[name])
            fits = [job for job in fits if getattr(job.labels, kind) == best]
    by_name = {job.labels.calibrator: job for job in fits}
    try:
        order = ranked_calibrators(folder.results()) if len(by_name) > 1 else []
    except DatabaseError:
        order = []
    # A run without calibration metrics has no ranking. What is fitted there is better than nothing.
    fitted = [job for job in fits if job.shards[0].parameters.calibrator.plugin != "uncalibrated"]
    return next((by_name[name] for name in order if name in by_name), (fitted or fits)[0])


def _auroc(pool: Pool) -> float:
    """The probability that a right trajectory has a higher score than a wrong one. Equal scores count half."""
    from sklearn.metrics import roc_auc_score

    read = np.isfinite(pool.scores)
    right = pool.correct[read]
    return float(roc_auc_score(right, pool.scores[read])) if right.any() and not right.all() else 0.5


def fit_of(cell: Cell, plan: Plan, directory: Path) -> Job[FitParameters]:
    """Return the job that fits the calibrator of a cell."""
    wanted = cell.labels.llm, cell.labels.prm, cell.labels.calibrator
    for fit in plan.jobs_of(FitParameters):
        if (fit.labels.llm, fit.labels.prm, fit.labels.calibrator) == wanted:
            return fit
    raise RunError(
        f"The cell '{cell.cell_id}' has no calibrator. Choose one that has: `prmcal leaderboard {directory} --table "
        "calibration` lists them."
    )
