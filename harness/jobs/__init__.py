"""The jobs: the computation of a shard of each kind. Scheduling belongs in `prmcal.harness.execution`.

Each kind of job has a class of parameters in ``parameters`` and a function ``compute_KIND(shard, context) -> Output``:
a pure function from keyed inputs to an artifact. Jobs that measure compute results from artifacts and run no model.
Formulas that the league shares with others are in `prmcal.harness.metrics`.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prmcal.harness.jobs.parameters import KINDS_OF_JOBS, Parameters

if TYPE_CHECKING:
    from prmcal.harness.jobs.context import Context, Output
    from prmcal.harness.jobs.job import Shard


def compute(shard: "Shard[Parameters]", context: "Context") -> "Output":
    """Compute a shard with the function for its kind."""
    return function_of(shard.parameters.kind)(shard, context)


def function_of(kind: str) -> "Callable[[Shard[Any], Context], Output]":
    """Return the function for a kind of job. Its module is imported when it is first needed."""
    module = importlib.import_module(f"prmcal.harness.jobs.{KINDS_OF_JOBS[kind][1]}")
    function: Callable[[Shard[Any], Context], Output] = getattr(module, f"compute_{kind}")
    return function
