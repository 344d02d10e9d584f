"""The jobs: each a pure function from keyed inputs to an artifact, one kind a module.

A module ``harness.jobs.<kind>`` has one function ``compute(shard, context) -> Output``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.context import Context, Output
    from harness.plan import Shard

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


def compute(shard: Shard, context: Context) -> Output:
    """Run a shard's function."""
    module = importlib.import_module(f"harness.jobs.{shard.ref.kind}")
    output: Output = module.compute(shard, context)
    return output
