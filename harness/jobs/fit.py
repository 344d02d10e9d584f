"""Fit: fit one calibrator on the calibration split of one (LLM, PRM)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.harness.jobs.context import Context, Output, successes_of
from prmcal.harness.jobs.features import (
    PREFIX,
    features_of,
    require_prefixes,
    scored_prefixes,
    without_terminal,
)
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.calibrator import Calibrator, FitSupport

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["calibration_rows", "compute", "fit_to"]


def compute(shard: Shard[FitParameters], context: Context) -> Output:
    """Return the fitted calibrator, which saves itself as safetensors and JSON."""
    calibrator = context.calibrator(shard.parameters.calibrator)
    name = shard.parameters.calibrator.name
    rows = calibration_rows(shard, context)
    with plugin_guard("calibrator", name, "fit"):
        calibrator.support = FitSupport(context.store.checkpoints(shard.ref), context.report)
        fit_to(calibrator, shard, context, rows)

    def save(folder: Path) -> None:
        with plugin_guard("calibrator", name, "save"):
            calibrator.save(folder)

    return Output(save=save)


def calibration_rows(shard: Shard[FitParameters], context: Context) -> pd.DataFrame:
    """Return the prefixes that a calibrator is fitted to, with their scores and success counts."""
    rows = scored_prefixes(context, shard).merge(
        successes_of(context, shard), on=PREFIX, validate="one_to_one"
    )
    require_prefixes(rows, "calibration")
    return rows if shard.parameters.terminal else without_terminal(rows, "calibration")


def fit_to(calibrator: Calibrator, shard: Shard[FitParameters], context: Context, rows: pd.DataFrame) -> None:
    """Fit a calibrator to some rows of :func:`calibration_rows`."""
    grouping: dict[str, Any] = {}
    if calibrator.grouped:
        grouping["questions"] = np.unique(rows["question_id"].to_numpy(str), return_inverse=True)[1]
    calibrator.fit(
        features_of(context, shard, calibrator, rows),
        rows["successes"].to_numpy(np.int64),
        rows["follow_ups"].to_numpy(np.int64),
        **grouping,
    )
