"""The jobs: what a shard of each kind computes. When it is computed belongs in `prmcal.harness.execution`.

Each kind of job has a module with one function ``compute(shard, context) -> Output``: a pure function from keyed inputs
to an artifact.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prmcal.harness.jobs.context import Context, Output
    from prmcal.harness.jobs.job import Shard

__all__ = ["JOB_VERSIONS", "compute"]

# Part of every key: raise a number when the same inputs give another output.
JOB_VERSIONS = {
    "rollout": 2,
    "success": 1,
    "imported": 1,
    "score": 2,
    "hidden": 1,
    "fit": 2,
    "calibrated": 2,
    "calibration_metrics": 2,
    "strategy": 1,
    "curves": 3,
    "search": 1,
    "search_results": 1,
}

_MEASUREMENTS = ("calibration_metrics", "strategy", "curves", "search_results")


def compute(shard: Shard, context: Context) -> Output:
    """Run a shard's function."""
    room = "measurement." if shard.ref.kind in _MEASUREMENTS else ""
    module = importlib.import_module(f"prmcal.harness.jobs.{room}{shard.ref.kind}")
    output: Output = module.compute(shard, context)
    return output
