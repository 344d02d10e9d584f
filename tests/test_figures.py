"""The figures in the README and the model card are those of the finished nano grid, by this version of the code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.documents.__main__ import DOCUMENTS, written
from benchmarks.documents.aims import aims
from benchmarks.documents.figures import keys_of_the_nano_grid, load
from benchmarks.documents.nano import statistics

AGAIN = "Run the nano grid, then `python -m benchmarks.documents runs/nano runs/demo`."

MISSED = {"the same on nano-aime, out of distribution"}
"""The aim of the nano models that their model card says is missed."""


def test_figures_are_of_the_grid_as_it_is_now() -> None:
    assert load().about["keys"] == keys_of_the_nano_grid(), f"The figures are of other keys. {AGAIN}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_quote_these_figures(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert "<!-- figures: " in text
    assert written(text, load()) == text, f"{document.name} has other figures. {AGAIN}"


def test_the_nano_world_is_like_recorded_models_where_its_card_says_so() -> None:
    assert {each.name for each in aims(load().world) if not each.met} == MISSED


def test_the_statistics_of_a_world_are_those_of_its_samples() -> None:
    answers = [["7", "7", "8", "8"], ["1", "1", "1", "2"], ["5", "5", "5", "5"]]
    correct = [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    logits = [[2.0, 1.0, 1.5, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    samples = pd.DataFrame(
        {
            "question_id": np.repeat(["a", "b", "c"], 4),
            "trajectory": np.tile(np.arange(4), 3),
            "answer": np.ravel(answers),
            "correct": np.ravel(correct).astype(bool),
            "logit": np.ravel(logits),
        }
    )
    found = statistics(samples)
    # Of 7 pairs of wrong answers 4 are equal, and one equal and one different pair are added.
    assert found["theta"] == pytest.approx((3 + 1) / (4 + 1))
    assert (found["never"], found["always"]) == pytest.approx((1 / 3, 1 / 3))
    assert (found["auc"], found["pass_at_1"]) == pytest.approx((0.75, 0.5))
    assert found["optimum"] == 4
    assert found["at_n"] == pytest.approx(2 / 3)
