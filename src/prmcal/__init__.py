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

Authors of plugins import the contracts and the decorators:

    from prmcal import Calibrator, calibrator

Each name is loaded when it is first used, so ``import prmcal`` loads neither torch nor pydantic.

prmcal.registry    what can be benchmarked: contracts and plugins
prmcal.harness     how a grid is run: grid file, plan, jobs, artifacts, database
prmcal.db          where results live: tables, statistics and queries over DuckDB
prmcal.dashboard   the web pages, which only read
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prmcal.harness.cluster.connection import ClusterSettings
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
    from prmcal.registry.contracts.search import SearchStrategy
    from prmcal.registry.contracts.strategy import Answered, Asked, Choice, PoolStrategy, Setting
    from prmcal.registry.plugins import calibrator, dataset, llm, metric, prm, strategy
    from prmcal.registry.prms.generative import GenerativePRM
    from prmcal.registry.prms.transformers import TransformersPRM

__version__ = "0.2.0.dev0"

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
    "calibrator",
    "dataset",
    "llm",
    "load",
    "metric",
    "open_run",
    "prm",
    "run",
    "strategy",
]

_HOME = {
    "LLM": "prmcal.registry.contracts.models",
    "PRM": "prmcal.registry.contracts.models",
    "AbsoluteSum": "prmcal.registry.contracts.metric",
    "Answered": "prmcal.registry.contracts.strategy",
    "Asked": "prmcal.registry.contracts.strategy",
    "CalibratedPRM": "prmcal.harness.inference.calibrated_prm",
    "Calibrator": "prmcal.registry.contracts.calibrator",
    "Choice": "prmcal.registry.contracts.strategy",
    "ClusterSettings": "prmcal.harness.cluster.connection",
    "Completion": "prmcal.registry.contracts.data",
    "Dataset": "prmcal.registry.contracts.dataset",
    "Familiarity": "prmcal.harness.inference.results",
    "FitSupport": "prmcal.registry.contracts.calibrator",
    "GenerationRequest": "prmcal.registry.contracts.data",
    "GenerativePRM": "prmcal.registry.prms.generative",
    "GridSpec": "prmcal.harness.planning.grid",
    "HiddenStates": "prmcal.registry.contracts.data",
    "Pool": "prmcal.registry.contracts.pool",
    "Known": "prmcal.registry.contracts.metric",
    "Metric": "prmcal.registry.contracts.metric",
    "PoolStrategy": "prmcal.registry.contracts.strategy",
    "Prefix": "prmcal.registry.contracts.data",
    "PrefixRewards": "prmcal.harness.inference.results",
    "PrefixRows": "prmcal.registry.contracts.metric",
    "PrefixScores": "prmcal.registry.contracts.data",
    "Question": "prmcal.registry.contracts.data",
    "QuestionRatio": "prmcal.registry.contracts.metric",
    "Run": "prmcal.harness.notebook",
    "Sampling": "prmcal.registry.contracts.data",
    "ScoredPrefixes": "prmcal.registry.contracts.calibrator",
    "ScoringRequest": "prmcal.registry.contracts.data",
    "SearchStrategy": "prmcal.registry.contracts.search",
    "Setting": "prmcal.registry.contracts.strategy",
    "Solution": "prmcal.harness.inference.results",
    "Step": "prmcal.harness.inference.results",
    "TransformersPRM": "prmcal.registry.prms.transformers",
    "UnderWeights": "prmcal.registry.contracts.metric",
    "calibrator": "prmcal.registry.plugins",
    "dataset": "prmcal.registry.plugins",
    "llm": "prmcal.registry.plugins",
    "load": "prmcal.harness.inference.loading",
    "metric": "prmcal.registry.plugins",
    "open_run": "prmcal.harness.notebook",
    "prm": "prmcal.registry.plugins",
    "run": "prmcal.harness.notebook",
    "strategy": "prmcal.registry.plugins",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'prmcal' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
