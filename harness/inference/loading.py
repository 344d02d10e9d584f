"""``prmcal.load``: a calibrated PRM from a run, from a folder that was saved or exported, or from an adapter.

A saved folder can be copied. It has everything but the models' weights, which its plugins name:

FOLDER/calibrated_prm.json       the plugins, the sampling and the defaults
FOLDER/calibrator/               the fitted calibrator
FOLDER/calibration.safetensors   scores and grades of the calibration questions, without any text
FOLDER/rewards.safetensors       calibrated rewards of the bare calibration questions
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal import __version__
from prmcal.db.metrics import cell_number
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.inference.asking import Defaults
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.calibration_questions import CalibrationQuestions
from prmcal.harness.inference.choosing import RULE, best_fit, fit_of
from prmcal.harness.inference.models import Answerer
from prmcal.harness.inference.rewarding import Rewarder
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.messages import reading
from prmcal.registry.plugins import calibrators, llms

_STRATEGY = PluginReference("posterior vote", "posterior vote", {})
_TARGET = 0.95
_SAMPLES = 64
_BASE = "Qwen/Qwen2.5-Math-PRM-7B"
_ADAPTER_FILE = "adapter_config.json"
_FILE, _CALIBRATOR, _REWARDS = "calibrated_prm.json", "calibrator", "rewards.safetensors"


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
    if (folder / _FILE).exists():
        return _of_saved(folder)
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
        fit = fit_of(cell, plan, directory)
        title, chosen_by = f"{cell_number(numbered(published)[cell_id])} {cell_id}", ""
    (shard,) = fit.shards
    if store.manifest(shard.ref.kind, shard.ref.key) is None:
        raise RunError(
            f"The calibrator '{fit.labels.calibrator}' is not fitted yet for this cell. Run the grid again to continue "
            "it."
        )
    load_plugins_of(folder)
    given = shard.parameters
    llm, sampling = _generation(plan, fit)
    levels = sorted({each.level for each in plan.cells if each.level is not None})
    defaults = _defaults(plan, cell, levels)
    card = _Card(
        name=str(fit.labels),
        llm=llm,
        prm=given.prm,
        calibrator=given.calibrator,
        sampling=sampling,
        levels=tuple(levels),
        strategy=defaults.strategy,
        target=defaults.target,
        level=defaults.level,
        max_samples=defaults.max_samples,
    )
    fitted = store.folder(shard.ref.kind, shard.ref.key)
    models = card.models(fitted, CalibrationQuestions.of_run(plan, store, shard))
    return CalibratedPRM(
        models,
        defaults,
        name=title,
        prm=given.prm.name,
        calibrator=given.calibrator.name,
        chosen_by=chosen_by,
        save=lambda target: _save(target, card, fitted, models),
    )


@dataclass(frozen=True)
class _Card:
    """The content of ``calibrated_prm.json``: the cell that it was saved from, the plugins, and the defaults."""

    name: str
    llm: PluginReference
    prm: PluginReference
    calibrator: PluginReference
    sampling: Sampling
    levels: tuple[float, ...]
    strategy: PluginReference
    target: float | None
    level: float | None
    max_samples: int

    @classmethod
    def of(cls, content: dict[str, Any]) -> _Card:
        """Return the card that is written in a file."""
        plugins = {
            kind: PluginReference(**content[kind]) for kind in ("llm", "prm", "calibrator", "strategy")
        }
        sampling = Sampling(**{**content["sampling"], "stop": tuple(content["sampling"]["stop"])})
        return cls(
            name=str(content["name"]),
            sampling=sampling,
            levels=tuple(float(each) for each in content["levels"]),
            target=content["target"],
            level=content["level"],
            max_samples=int(content["max_samples"]),
            **plugins,
        )

    def models(
        self,
        fitted: Path,
        calibration: CalibrationQuestions,
        question_rewards: NDArray[np.float64] | None = None,
    ) -> Answerer:
        """Return the models with the calibrator that was fitted in a folder."""
        models = Models()
        models.llm(self.llm, beside=True)
        models.prm(self.prm, beside=True)
        with plugin_guard("calibrator", self.calibrator.name, "load"):
            loaded = models.calibrator(self.calibrator, fitted)
        rewarder = Rewarder(models, self.prm, loaded, self.calibrator.name, self.levels)
        return Answerer(models, self.llm, rewarder, self.sampling, calibration, question_rewards)


def _save(folder: Path, card: _Card, fitted: Path, models: Answerer) -> None:
    """Write a folder. The rewards of the calibration questions are computed if they are not known yet."""
    from safetensors.numpy import save_file

    rewards = models.question_rewards
    shutil.copytree(fitted, folder / _CALIBRATOR)
    assert models.calibration is not None
    models.calibration.save(folder)
    if rewards is not None:
        save_file({"question_rewards": rewards}, folder / _REWARDS)
    content = {"prmcal": __version__, **asdict(card)}
    (folder / _FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _of_saved(folder: Path) -> CalibratedPRM:
    from safetensors.numpy import load_file

    with reading(f"{folder} does not hold a calibrated PRM", "Save it again."):
        card = _Card.of(json.loads((folder / _FILE).read_text(encoding="utf-8")))
        rewards = folder / _REWARDS
        question_rewards = load_file(rewards)["question_rewards"] if rewards.exists() else None
    models = card.models(folder / _CALIBRATOR, CalibrationQuestions.load(folder), question_rewards)
    defaults = Defaults(card.strategy, card.target, card.level, card.max_samples, {})
    name = f"{folder} ({card.name})"
    return CalibratedPRM(models, defaults, name=name, prm=card.prm.name, calibrator=card.calibrator.name)


def _generation(plan: Plan, fit: Job[FitParameters]) -> tuple[PluginReference, Sampling]:
    """Return the LLM of a fit and how it is sampled."""
    reference = next(each.reference for each in plan.plugins[llms.kind] if each.name == fit.labels.llm)
    for job in plan.jobs:
        sampling = getattr(job.shards[0].parameters, "sampling", None)
        if job.labels.llm == fit.labels.llm and isinstance(sampling, Sampling):
            return reference, sampling
    return reference, Sampling()


def _defaults(plan: Plan, cell: Cell | None, levels: list[float]) -> Defaults:
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
    models, prm = Models(), PluginReference(folder.name, "qwen", {"checkpoint": str(folder)})
    return _without_run(models, Rewarder(models, prm, None, "export-prm"), llm, str(folder), "qwen")


def _of_adapter(folder: Path, base: str, llm: str | None) -> CalibratedPRM:
    from prmcal.registry.calibrators.lora.adapter import QuantileAdapter

    models, prm = Models(), PluginReference(base, "qwen", {"checkpoint": base})
    calibrator = calibrators.create("quantile-adapter", adapter=str(folder))
    assert isinstance(calibrator, QuantileAdapter)
    with plugin_guard("calibrator", "quantile-adapter", "load"):
        calibrator.restore(models.prm(prm))
    rewarder = Rewarder(models, prm, calibrator, "quantile-adapter")
    return _without_run(models, rewarder, llm, str(folder), base)


def _without_run(models: Models, rewarder: Rewarder, llm: str | None, name: str, prm: str) -> CalibratedPRM:
    """Without calibration questions nothing is tuned, so the strategy is the paper's."""
    reference = None if llm is None else PluginReference(llm, "transformers", {"checkpoint": llm})
    if reference is not None:
        models.llm(reference, beside=True)
    strategy = PluginReference("best-of-n + IAS", "best-of-n + IAS", {})
    answerer = Answerer(models, reference, rewarder, Sampling(max_tokens=2048), None)
    defaults = Defaults(strategy, 0.99, rewarder.levels[0], _SAMPLES, {})
    return CalibratedPRM(answerer, defaults, name=name, prm=prm, calibrator=rewarder.name)


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
