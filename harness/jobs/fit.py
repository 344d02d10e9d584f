"""Fit: fit one calibrator on the calibration split of one (LLM, PRM)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prmcal.harness.jobs.context import Context, Output, plugin_guard, successes_of
from prmcal.harness.jobs.features import (
    PREFIX,
    features_of,
    require_prefixes,
    scored_prefixes,
    without_terminal,
)
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.registry.contracts.features import FitSupport

__all__ = ["compute"]


def compute(shard: Shard[FitParameters], context: Context) -> Output:
    """Return the fitted calibrator, which saves itself as safetensors and JSON."""
    calibrator = context.calibrator(shard.parameters.calibrator)
    rows = scored_prefixes(context, shard).merge(
        successes_of(context, shard), on=PREFIX, validate="one_to_one"
    )
    require_prefixes(rows, "calibration")
    if not shard.parameters.terminal:
        rows = without_terminal(rows, "calibration")
    name = shard.parameters.calibrator.name
    with plugin_guard("calibrator", name, "fit"):
        calibrator.support = FitSupport(context.store.checkpoints(shard.ref), context.report)
        grouping: dict[str, Any] = {}
        if calibrator.grouped:
            grouping["questions"] = np.unique(rows["question_id"].to_numpy(str), return_inverse=True)[1]
        calibrator.fit(
            features_of(context, shard, calibrator, rows),
            rows["successes"].to_numpy(np.int64),
            rows["follow_ups"].to_numpy(np.int64),
            **grouping,
        )

    def save(folder: Path) -> None:
        with plugin_guard("calibrator", name, "save"):
            calibrator.save(folder)

    return Output(save=save)
