"""The jobs: what a shard of each kind computes. When it is computed belongs in `prmcal.harness.execution`.

Each kind of job has a class of parameters in ``parameters`` and a module of the same name with one function,
``compute(shard, context) -> Output``: a pure function from keyed inputs to an artifact.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from prmcal.harness.jobs.parameters import MeasuringParameters, Parameters

if TYPE_CHECKING:
    from prmcal.harness.jobs.context import Context, Output
    from prmcal.harness.jobs.job import Shard

__all__ = ["compute"]


def compute(shard: Shard[Parameters], context: Context) -> Output:
    """Compute a shard with the function for its kind. The module is imported when it is first needed."""
    room = "measurement." if isinstance(shard.parameters, MeasuringParameters) else ""
    module = importlib.import_module(f"prmcal.harness.jobs.{room}{shard.parameters.kind}")
    output: Output = module.compute(shard, context)
    return output
