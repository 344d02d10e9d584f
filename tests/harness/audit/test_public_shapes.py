"""Files of other projects are read as their writers mean them, down to each prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import DataError
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.scored import scored_records
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.records import read_records
from tests.conftest import ROOT
from tests.harness.audit.public import PAGE, SHAPES, Public, written
from tests.harness.audit.solutions import SOLUTIONS, Solution

DATA = ROOT / "tests" / "recorded"
named = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def labels_of(solution: Solution, shape: Public) -> list[float]:
    steps = range(1, len(solution.steps) + 1)
    right = [float(step not in solution.wrong_steps) for step in steps]
    first = solution.first_error + 1
    so_far = [float(not first or step < first) for step in steps]
    return {
        "outcome": [float(solution.right)] * len(solution.steps),
        "first error": so_far[:first] if shape.name.startswith("PRM800K") and first else so_far,
        "step": right,
        "success rate": right if shape.name.startswith("Math-Shepherd") else list(solution.rates),
    }[shape.target]


@named
def test_each_prefix_has_its_score_and_its_label(shape: Public, tmp_path: Path) -> None:
    found = shape.read(tmp_path)
    assert found.target == shape.target
    assert found.questions == shape.names
    expected = []
    for each in SOLUTIONS:
        labels = labels_of(each, shape)
        rows = list(zip(range(1, len(labels) + 1), each.scores, labels, strict=False))
        expected += rows[-1:] if shape.is_whole else rows
    if "lists" in shape.name:  # Each prefix is a row of its own, and its steps are not told apart.
        expected = [(1, score, label) for _, score, label in expected]
    columns = ["score", "label"] if shape.is_whole else ["step", "score", "label"]
    read = found.prefixes[columns].to_numpy().tolist()
    assert read == [list(row)[-len(columns) :] for row in expected]


def test_the_page_shows_what_is_read() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "<!-- shapes -->" in text
    assert written(text) == text, "Run `python -m tests.harness.audit.public`."
    assert len(SHAPES) >= 14


def test_a_response_with_two_filters_is_counted_once(tmp_path: Path) -> None:
    (shape,) = (each for each in SHAPES if each.options.label == "flexible-extract")
    shape.read(tmp_path)
    paths = [tmp_path / name for name in shape.files()]
    with pytest.raises(
        DataError, match=r"'strict-match' and 'flexible-extract' give different labels\. .*: --label strict-"
    ):
        audit(paths)
    assert audit(paths, Fields(label="strict-match")).solutions["label"].sum() == 0


# Mean label of the prefixes, solutions and prefixes of the recorded rows, counted without the reader.
REAL = {
    "openr_train_data.json": (0.8389, 80, 633),
    "compute_optimal_tts_record.jsonl": (0.3216, 20, 199),
    "math_cot_100_8samples.jsonl": (0.8438, 160, 160),
    "processbench_math.json": (0.5929, 20, 113),
    "openr_samples_math-shepherd.jsonl": (0.2, 7, 25),
    "openr_samples_math-aps_mcvalues.jsonl": (0.6953, 12, 12),
    "openr_samples_math-aps-tree_mcvalues.jsonl": (0.8229, 9, 18),
}


@pytest.mark.parametrize("shape", [each for each in SHAPES if any(each.real)], ids=lambda shape: shape.real[0])
def test_published_files_are_read_as_they_are(shape: Public, tmp_path: Path) -> None:
    path = DATA / shape.real[0]
    if shape.real[1:]:
        path = tmp_path / path.name
        records = [each for _, each in read_records(DATA / shape.real[0])]
        path.write_text("\n".join(json.dumps(with_scores(each)) for each in records), encoding="utf-8")
    rows = scored_records(read_records(path), path.name, shape.options)
    assert rows.target == shape.target
    mean, solutions, prefixes = REAL[path.name]
    assert rows.prefixes["label"].mean() == pytest.approx(mean, abs=1e-4)
    assert (len(rows.solutions), len(rows.prefixes)) == (solutions, prefixes)


def with_scores(value: Any) -> Any:
    """Return a record with a score beside each success rate, or for each of its steps."""
    if isinstance(value, list):
        return [with_scores(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "mc_value" in value:
        return {"score": 0.5, **{name: with_scores(each) for name, each in value.items()}}
    steps = value["steps"] if "steps" in value else str(value.get("input", "")).split("\u043a\u0438")[:-1]
    return {**{name: with_scores(each) for name, each in value.items()}, "scores": [0.5] * len(steps)}
