"""The runs that the tests of merging share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.merging import small_runs


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the whole grid."""
    return small_runs.run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="session")
def parts(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The runs of the parts. The first one is computed from the beginning."""
    root = tmp_path_factory.mktemp("parts")
    return {
        name: small_runs.run(root / name, part, None if name == "llm" else whole)
        for name, part in small_runs.PARTS.items()
    }


@pytest.fixture(scope="session")
def second_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part with one LLM, run with another seed."""
    part = small_runs.Part({**small_runs.PARTS["llm"].changes, "seed": 4})
    return small_runs.run(tmp_path_factory.mktemp("seed") / "run", part)
