"""The figures in the README and the model card are those of the finished nano grid, by this version of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evidence.documents import DOCUMENTS, written
from benchmarks.evidence.figures import keys_of_the_nano_grid, load

AGAIN = "Run the nano grid, then `python -m benchmarks.evidence.documents runs/nano runs/demo`."


def test_figures_are_of_the_grid_as_it_is_now() -> None:
    assert load().about["keys"] == keys_of_the_nano_grid(), f"The figures are of other keys. {AGAIN}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_quote_these_figures(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert "<!-- figures: " in text
    assert written(text, load()) == text, f"{document.name} has other figures. {AGAIN}"
