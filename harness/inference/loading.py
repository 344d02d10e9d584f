"""``prmcal.load``: the calibrated PRM of a run. What nobody names is chosen by a rule."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from prmcal.db.metrics import cell_number
from prmcal.db.overview.query import ranked_calibrators
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.errors import DatabaseError, PluginFailedError, RunError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.scoring import Scorer
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.context import Context, Models
from prmcal.harness.jobs.job import TUNING, Job, Refs, Shard
from prmcal.harness.jobs.parameters import FitParameters, Parameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import tuning_pool
from prmcal.harness.planning.plan import Plan, PlannedCell
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.contracts.pool import Pool, Reads
from prmcal.registry.contracts.strategy import DEFAULT_STRATEGY, Allowance
from prmcal.registry.grading.extraction import MARKED, Ways

RULE = (
    "the LLM that is right most often on the calibration questions, the PRM whose scores tell its right trajectories "
    "there from wrong ones best, and the calibrator that is first in the ranking on test questions, so that its "
    "results on them are rather too good"
)
"""The rule for choosing a cell, as a part of a sentence."""
_DEFAULT_SAMPLES = 64


def load(
    run: str | Path,
    cell: str | int | None = None,
    *,
    llm: str | None = None,
    prm: str | None = None,
    calibrator: str | None = None,
) -> CalibratedPRM:
    """Load a calibrated PRM, so that it scores new prefixes and answers new questions. Models are loaded when used.

    Raises a PrmcalError if there is no such run or cell, or no calibrator with these names is fitted yet.

    Parameters
    ----------
    run : str or Path
        The output folder of a run.
    cell : str or int, optional
        A cell, by its number, its identifier or a part of it. A cell of the scaling leaderboard gives the strategy, its
        target C and its level; the default is ``learned stopping``.
    llm, prm, calibrator : str, optional
        Names in the grid. Parts that neither the cell nor a name gives are chosen: the LLM that is right most often on
        the calibration questions, the PRM whose scores tell its right trajectories there from wrong ones best, and the
        calibrator that is first in the ranking.
    """
    folder = RunFolder(Path(run).expanduser())
    plan, store = existing_plan(folder), Store(folder.directory)
    names = {"llm": llm or "", "prm": prm or "", "calibrator": calibrator or ""}
    planned_cell, title = None, ""
    if cell is not None:
        published = folder.results()
        cell_id = find_cell(published, str(cell))
        planned_cell = next((planned for planned in plan.cells if planned.cell_id == cell_id), None)
        if planned_cell is None:
            raise RunError(f"The plan in {folder.directory} has no cell '{cell_id}'. Run the grid again.")
        names = {kind: getattr(planned_cell.labels, kind) or name for kind, name in names.items()}
        title = f"{cell_number(numbered(published)[cell_id])} {cell_id}"
    fit = best_fit(folder, plan, store, names)
    load_plugins_of(folder)
    llm_reference = next(planned.reference for planned in plan.plugins["llm"] if planned.name == fit.labels.llm)
    generating_jobs = plan.jobs_of(parameters.GeneratingParameters)
    sampling_jobs = [job for job in generating_jobs if job.labels.llm == fit.labels.llm]
    strategy, allowance = _rule(plan, planned_cell)
    return CalibratedPRM(
        name=title or str(fit.labels),
        chosen_by="" if all(names.values()) else f"What was not named was chosen by this rule: {RULE}.",
        scorer=_scorer(plan, store, fit, llm_reference),
        llm=llm_reference,
        sampling=sampling_jobs[0].shards[0].parameters.sampling if sampling_jobs else Sampling(),
        ways=_ways(plan, llm_reference),
        strategy=strategy,
        allowance=allowance,
        level=None if planned_cell is None else planned_cell.level,
        calibration=partial(calibration_pool, plan, store, fit.shards[0]),
    )


def _scorer(plan: Plan, store: Store, fit: Job[FitParameters], llm: PluginReference) -> Scorer:
    """Return the PRM of a fit with its calibrator, beside the LLM. It predicts the levels of the grid if it can."""
    (shard,) = fit.shards
    models, prm, fitted = Models(), shard.parameters.prm, shard.parameters.calibrator
    models.llm(llm, beside=True)
    with plugin_guard("calibrator", fitted.name, "load"):
        calibrator = models.calibrator(fitted, store.folder(shard.ref))
    levels = set(calibrator.levels)
    if calibrator.any_level and calibrator.reads != "prm":
        levels |= {cell.level for cell in plan.cells if cell.level is not None}
    return Scorer(models, prm, calibrator, fitted.name, tuple(sorted(levels)))


def _rule(plan: Plan, cell: PlannedCell | None) -> tuple[PluginReference, Allowance]:
    """Return the strategy of a cell with its allowance, or the default one, with as many samples as the grid has."""
    samples = [job.shards[0].parameters.samples for job in plan.jobs_of(parameters.StrategyParameters)]
    samples += [job.shards[0].parameters.samples for job in plan.jobs_of(parameters.LeagueParameters)]
    most_samples = max(samples, default=_DEFAULT_SAMPLES)
    references = {planned.name: planned.reference for planned in plan.plugins.get("strategy", ())}
    if cell is not None and cell.strategy:
        return references[cell.strategy], Allowance(most_samples, cell.target)
    default = PluginReference(DEFAULT_STRATEGY, DEFAULT_STRATEGY, {})
    return references.get(DEFAULT_STRATEGY, default), Allowance(most_samples)


def _ways(plan: Plan, llm: PluginReference) -> Ways:
    """Return where the answers of an LLM stand in its solutions."""
    grading_jobs = [job for job in plan.jobs_of(parameters.GradedParameters) if job.labels.llm == llm.name]
    return grading_jobs[0].shards[0].parameters.answers if grading_jobs else llm.arguments.get("answers") or MARKED


def calibration_pool(plan: Plan, store: Store, fit: Shard[FitParameters], reads: Sequence[Reads]) -> Pool:
    """Return the graded trajectories of a calibrator's fit, with the arrays that a strategy reads.

    Raises a PluginFailedError if it reads more than scores. Raises a PrmcalError if an artifact is damaged or absent.
    """
    if missing := set(reads) - {"scores", "step_scores"}:
        raise PluginFailedError(
            f"it is tuned with '{min(missing)}' of the calibration questions, which are not kept. Choose another "
            "strategy."
        )
    scores = fit.inputs["score"]
    rollouts = {ref for shard in plan.shards() if shard.ref in scores for ref in shard.inputs["rollout"]}
    grading_shards = [shard for job in plan.jobs if job.kind == "graded" for shard in job.shards]
    graded_refs = Refs(shard.ref for shard in grading_shards if shard.inputs["rollout"][0] in rollouts)
    inputs = {f"{TUNING}graded": graded_refs, f"{TUNING}score": scores}
    shard: Shard[Parameters] = Shard(fit.ref, fit.parameters, inputs)
    return tuning_pool(shard, Context(store), reads, None)


def best_fit(folder: RunFolder, plan: Plan, store: Store, names: Mapping[str, str]) -> Job[FitParameters]:
    """Return the fit that is used, by :data:`RULE`.

    `names` has the LLM, the PRM and the calibrator that are already chosen, by their kind; others are empty. Raise
    RunError if no calibrator with these names is fitted.
    """
    fits = plan.jobs_of(FitParameters)
    if not fits:
        raise RunError(f"The grid in {folder.directory} fits no calibrator, so there is nothing to use.")
    for kind, name in names.items():
        named_fits = [job for job in fits if getattr(job.labels, kind) == name] if name else fits
        if not named_fits:
            names_there = ", ".join(dict.fromkeys(getattr(job.labels, kind) for job in fits))
            raise RunError(f"The run in {folder.directory} has no {kind} '{name}'. It has: {names_there}.")
        fits = named_fits
    fits = [job for job in fits if store.manifest(job.refs[0]) is not None]
    if not fits:
        raise RunError(
            f"No calibrator with these names is fitted yet in {folder.directory}. Run the grid again to continue it."
        )
    for kind, quality in (("llm", lambda pool: pool.correct.mean()), ("prm", _auroc)):
        first_fits = {getattr(job.labels, kind): job for job in reversed(fits)}
        if len(first_fits) > 1:
            values = {
                name: quality(calibration_pool(plan, store, job.shards[0], ("scores",)))
                for name, job in reversed(first_fits.items())
            }
            best = max(values, key=lambda name: values[name])
            fits = [job for job in fits if getattr(job.labels, kind) == best]
    by_name = {job.labels.calibrator: job for job in fits}
    try:
        order = ranked_calibrators(folder.results()) if len(by_name) > 1 else []
    except DatabaseError:
        order = []
    # A run without calibration metrics has no ranking. What is fitted there is better than nothing.
    calibrating_fits = [job for job in fits if job.shards[0].parameters.calibrator.plugin != "uncalibrated"]
    return next((by_name[name] for name in order if name in by_name), (calibrating_fits or fits)[0])


def _auroc(pool: Pool) -> float:
    """The probability that a right trajectory has a higher score than a wrong one. Equal scores count half."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    is_scored = np.isfinite(pool.scores)
    is_right = pool.correct[is_scored]
    return float(roc_auc_score(is_right, pool.scores[is_scored])) if is_right.any() and not is_right.all() else 0.5
