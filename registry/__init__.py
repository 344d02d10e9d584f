"""What can be benchmarked: the contracts of LLMs, PRMs, calibrators, data sets and strategies, and their plugins.

    from registry import Calibrator, calibrator

Names are imported when they are first used, so that importing this package loads neither torch nor pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.contracts.calibrator import Calibrator
    from registry.contracts.data import (
        Completion,
        GenerationRequest,
        Prefix,
        PrefixScores,
        Question,
        Sampling,
        ScoringRequest,
    )
    from registry.contracts.dataset import Dataset
    from registry.contracts.features import FitSupport, HiddenStates, ScoredPrefixes
    from registry.contracts.llm import LLM
    from registry.contracts.prm import PRM
    from registry.contracts.search import SearchStrategy
    from registry.contracts.strategy import Answered, Pool, PoolStrategy, Setting
    from registry.plugins import calibrator, dataset, llm, prm, strategy
    from registry.prms.transformers import TransformersPRM

__all__ = [
    "LLM",
    "PRM",
    "Answered",
    "Calibrator",
    "Completion",
    "Dataset",
    "FitSupport",
    "GenerationRequest",
    "HiddenStates",
    "Pool",
    "PoolStrategy",
    "Prefix",
    "PrefixScores",
    "Question",
    "Sampling",
    "ScoredPrefixes",
    "ScoringRequest",
    "SearchStrategy",
    "Setting",
    "TransformersPRM",
    "calibrator",
    "dataset",
    "llm",
    "prm",
    "strategy",
]

_HOME = {
    "LLM": "registry.contracts.llm",
    "PRM": "registry.contracts.prm",
    "Answered": "registry.contracts.strategy",
    "Calibrator": "registry.contracts.calibrator",
    "Completion": "registry.contracts.data",
    "Dataset": "registry.contracts.dataset",
    "FitSupport": "registry.contracts.features",
    "GenerationRequest": "registry.contracts.data",
    "HiddenStates": "registry.contracts.features",
    "Pool": "registry.contracts.strategy",
    "PoolStrategy": "registry.contracts.strategy",
    "Prefix": "registry.contracts.data",
    "PrefixScores": "registry.contracts.data",
    "Question": "registry.contracts.data",
    "Sampling": "registry.contracts.data",
    "ScoredPrefixes": "registry.contracts.features",
    "ScoringRequest": "registry.contracts.data",
    "SearchStrategy": "registry.contracts.search",
    "Setting": "registry.contracts.strategy",
    "TransformersPRM": "registry.prms.transformers",
    "calibrator": "registry.plugins",
    "dataset": "registry.plugins",
    "llm": "registry.plugins",
    "prm": "registry.plugins",
    "strategy": "registry.plugins",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'registry' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
