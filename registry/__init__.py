"""What can be benchmarked: the contracts of LLMs, PRMs, calibrators and data sets, and their plugins.

    from registry import Calibrator, calibrator

Names are imported when they are first used, so that importing this package loads neither torch nor pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.contracts.calibrator import Calibrator
    from registry.contracts.data import Completion, Prefix, PrefixScores, Question, Sampling, ScoringRequest
    from registry.contracts.dataset import Dataset
    from registry.contracts.features import FitSupport, HiddenStates, ScoredPrefixes
    from registry.contracts.llm import LLM
    from registry.contracts.prm import PRM
    from registry.plugins import calibrator, dataset, llm, prm
    from registry.prms.transformers import TransformersPRM

__all__ = [
    "LLM",
    "PRM",
    "Calibrator",
    "Completion",
    "Dataset",
    "FitSupport",
    "HiddenStates",
    "Prefix",
    "PrefixScores",
    "Question",
    "Sampling",
    "ScoredPrefixes",
    "ScoringRequest",
    "TransformersPRM",
    "calibrator",
    "dataset",
    "llm",
    "prm",
]

_HOME = {
    "LLM": "registry.contracts.llm",
    "PRM": "registry.contracts.prm",
    "Calibrator": "registry.contracts.calibrator",
    "Completion": "registry.contracts.data",
    "Dataset": "registry.contracts.dataset",
    "FitSupport": "registry.contracts.features",
    "HiddenStates": "registry.contracts.features",
    "Prefix": "registry.contracts.data",
    "PrefixScores": "registry.contracts.data",
    "Question": "registry.contracts.data",
    "Sampling": "registry.contracts.data",
    "ScoredPrefixes": "registry.contracts.features",
    "ScoringRequest": "registry.contracts.data",
    "TransformersPRM": "registry.prms.transformers",
    "calibrator": "registry.plugins",
    "dataset": "registry.plugins",
    "llm": "registry.plugins",
    "prm": "registry.plugins",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'registry' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
