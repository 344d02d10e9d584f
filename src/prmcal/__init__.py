"""Measure and repair the calibration of process reward models (PRMs).

Run a grid and read its results, in a script or a notebook:

    import prmcal

    run = prmcal.run("hello", "runs/hello", progress=True)  # later: prmcal.open_run("runs/hello")
    print(run)
    run.ranking()[["calibrator", "mean_rank", "brier_reduction", "ias_to_best_of_n"]]
    board = run.leaderboard("calibration")
    board[["number", "calibrator", "brier_corrected", "brier_corrected_low", "brier_corrected_high"]]
    run.compare("#1", "#2")
    run.trajectories("#2", limit=5)[["question", "answer", "correct"]]

Answer new questions with a calibrated PRM of the run:

    with prmcal.load("runs/hello") as prm:
        print(prm.answer("Start with 35 and keep two digits. a) add 2, b) subtract 8.").answer)

Audit scores in a file, and use the calibrator from the audit:

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
from typing import Any

__version__ = "0.2.0"

_NAMES = {
    "harness.audit.audit": ("audit",),
    "harness.audit.saved": ("load_calibrator",),
    "harness.cluster.nodes": ("ClusterSettings",),
    "harness.inference.calibrated_prm": ("CalibratedPRM",),
    "harness.inference.loading": ("load",),
    "harness.inference.results": ("PrefixRewards", "Solution", "Trajectory"),
    "harness.notebook": ("Run", "open_run", "run"),
    "harness.planning.grid": ("GridSpec",),
    "registry.contracts.calibrator": ("Calibrator", "FitSupport", "ScoredPrefixes"),
    "registry.contracts.data": (
        *("Completion", "GenerationRequest", "HiddenStates", "Prefix", "PrefixScores"),
        *("Question", "Sampling", "ScoringRequest"),
    ),
    "registry.contracts.dataset": ("Dataset",),
    "registry.contracts.grader": ("Graded", "Grader", "GradingRequest"),
    "registry.contracts.metric": ("AbsoluteSum", "Metric", "PrefixRows", "QuestionRatio"),
    "registry.contracts.models": ("LLM", "PRM"),
    "registry.contracts.pool": ("Pool",),
    "registry.contracts.strategy": ("Answered", "PoolStrategy", "SearchStrategy", "Allowance"),
    "registry.plugins": ("calibrator", "dataset", "grader", "llm", "metric", "prm", "strategy"),
    "registry.prms.judge": ("JudgePRM",),
    "registry.prms.transformers": ("TransformersPRM",),
    "registry.strategies.aggregation": ("read_steps",),
    "registry.strategies.sequential": ("Drawn", "Outcome", "SequentialRule", "first_at_least"),
}
"""The names that each module gives to the package. `__init__.pyi` has the same for type checkers."""
_HOME = {name: f"prmcal.{module}" for module, names in _NAMES.items() for name in names}
__all__ = sorted([*_HOME, "__version__"], key=lambda name: (not name.isupper(), name))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'prmcal' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
