"""Measure and repair the calibration of process reward models (PRMs).

Run a grid and read its results, in a script or a notebook:

    import prmcal

    run = prmcal.run("hello", "runs/hello", progress=True)  # later: prmcal.open_run("runs/hello")
    print(run)
    run.ranking()[["calibrator", "mean_rank", "cut", "ias_to_best_of_n"]]
    board = run.leaderboard("calibration")
    board[["number", "calibrator", "brier_corrected", "brier_corrected_low", "brier_corrected_high"]]
    run.compare("#1", "#2")
    run.trajectories("#2", limit=5)[["question", "answer", "correct"]]
    run.report("reports/hello")

Answer new questions with a calibrated PRM of the run:

    with prmcal.load("runs/hello") as prm:
        print(prm.solve("Start with 35 and keep two digits. a) add 2, b) subtract 8.").answer)

Audit scores that are in a file, and use the calibrator that this leaves:

    print(prmcal.audit("scored.jsonl"))
    prmcal.load_calibrator("audit").predict([0.3, 0.9])  # after: prmcal audit scored.jsonl --out audit

Authors of plugins import the contracts and the decorators:

    from prmcal import Calibrator, calibrator

Each name is loaded when it is first used, so ``import prmcal`` loads neither torch nor pydantic.

prmcal.registry    what can be benchmarked: contracts and plugins
prmcal.harness     how a grid is run: grid file, plan, jobs, artifacts, database
prmcal.db          where results live: tables, statistics and queries over DuckDB
prmcal.dashboard   the web pages, which only read
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prmcal.harness.audit.audit import audit
    from prmcal.harness.audit.saved import load_calibrator
    from prmcal.harness.cluster.actor import ClusterSettings
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.inference.loading import load
    from prmcal.harness.inference.results import Familiarity, PrefixRewards, Solution, Step
    from prmcal.harness.notebook import Run, open_run, run
    from prmcal.harness.planning.grid import GridSpec
    from prmcal.registry.contracts.calibrator import Calibrator, FitSupport, ScoredPrefixes
    from prmcal.registry.contracts.data import (
        Completion,
        GenerationRequest,
        HiddenStates,
        Prefix,
        PrefixScores,
        Question,
        Sampling,
        ScoringRequest,
    )
    from prmcal.registry.contracts.dataset import Dataset
    from prmcal.registry.contracts.metric import (
        AbsoluteSum,
        Known,
        Metric,
        PrefixRows,
        QuestionRatio,
        UnderWeights,
    )
    from prmcal.registry.contracts.models import LLM, PRM
    from prmcal.registry.contracts.pool import Pool
    from prmcal.registry.contracts.strategy import (
        Answered,
        Asked,
        Choice,
        PoolStrategy,
        SearchStrategy,
        Setting,
    )
    from prmcal.registry.plugins import calibrator, dataset, llm, metric, prm, strategy
    from prmcal.registry.prms.generative import GenerativePRM
    from prmcal.registry.prms.transformers import TransformersPRM

__version__ = "0.2.0"

__all__ = [
    "LLM",
    "PRM",
    "AbsoluteSum",
    "Answered",
    "Asked",
    "CalibratedPRM",
    "Calibrator",
    "Choice",
    "ClusterSettings",
    "Completion",
    "Dataset",
    "Familiarity",
    "FitSupport",
    "GenerationRequest",
    "GenerativePRM",
    "GridSpec",
    "HiddenStates",
    "Known",
    "Metric",
    "Pool",
    "PoolStrategy",
    "Prefix",
    "PrefixRewards",
    "PrefixRows",
    "PrefixScores",
    "Question",
    "QuestionRatio",
    "Run",
    "Sampling",
    "ScoredPrefixes",
    "ScoringRequest",
    "SearchStrategy",
    "Setting",
    "Solution",
    "Step",
    "TransformersPRM",
    "UnderWeights",
    "__version__",
    "audit",
    "calibrator",
    "dataset",
    "llm",
    "load",
    "load_calibrator",
    "metric",
    "open_run",
    "prm",
    "run",
    "strategy",
]

_MODULES = {
    "harness.audit.audit": "audit",
    "harness.audit.saved": "load_calibrator",
    "harness.cluster.connection": "ClusterSettings",
    "harness.inference.calibrated_prm": "CalibratedPRM",
    "harness.inference.loading": "load",
    "harness.inference.results": "Familiarity PrefixRewards Solution Step",
    "harness.notebook": "Run open_run run",
    "harness.planning.grid": "GridSpec",
    "registry.contracts.calibrator": "Calibrator FitSupport ScoredPrefixes",
    "registry.contracts.data": (
        "Completion GenerationRequest HiddenStates Prefix PrefixScores Question Sampling ScoringRequest"
    ),
    "registry.contracts.dataset": "Dataset",
    "registry.contracts.metric": "AbsoluteSum Known Metric PrefixRows QuestionRatio UnderWeights",
    "registry.contracts.models": "LLM PRM",
    "registry.contracts.pool": "Pool",
    "registry.contracts.strategy": "Answered Asked Choice PoolStrategy SearchStrategy Setting",
    "registry.plugins": "calibrator dataset llm metric prm strategy",
    "registry.prms.generative": "GenerativePRM",
    "registry.prms.transformers": "TransformersPRM",
}
"""The names that each module gives to the face."""

_HOME = {name: f"prmcal.{module}" for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'prmcal' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
