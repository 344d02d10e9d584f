"""What the tests of merging share: a finished run of the whole grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.merging import small_runs
from tests.shared import made_once


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the whole grid. Tests must not write to it."""
    return made_once(tmp_path_factory, "whole", small_runs.run)


@pytest.fixture(scope="session")
def made_halves(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The halves of the grid, one for each LLM, as two machines compute them. Tests must not write to them."""

    def half(llm: str) -> Path:
        return made_once(
            tmp_path_factory,
            f"half-{llm}",
            lambda folder: small_runs.part(whole, folder, lambda cell: cell.labels.llm == llm),
        )

    return [half("weak"), half("strong")]


@pytest.fixture
def halves(made_halves: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of the halves, for tests that change them."""
    return [
        small_runs.copied(half, tmp_path / name) for half, name in zip(made_halves, ("weak", "strong"), strict=True)
    ]
