"""Files of other projects are read as their writers mean them, down to each prefix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prmcal.errors import DataError
from prmcal.harness.audit.audit import audit
from prmcal.registry.reading.solutions import Fields
from tests.conftest import ROOT
from tests.harness.audit.public import PAGE, SHAPES, Public, written
from tests.harness.audit.solutions import SOLUTIONS, Solution

DATA = ROOT.parent / "shared" / "data"
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
        DataError, match=r"of the filter 'strict-match' or of 'flexible-extract'\. Say which: --label strict-"
    ):
        audit(paths)
    assert audit(paths, Fields(label="strict-match")).solutions["label"].sum() == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="the recorded public data is absent")
def test_published_rates_and_first_errors_are_read(tmp_path: Path) -> None:
    for name, rates in (("math-aps", 145), ("math-aps-tree", None)):
        lines = (DATA / f"openr_samples_{name}_mcvalues.jsonl").read_text(encoding="utf-8").splitlines()
        text = "\n".join(line.replace('"mc_value":', '"score": 0.5, "mc_value":') for line in lines)
        (tmp_path / "rates.jsonl").write_text(text, encoding="utf-8")
        found = audit(tmp_path / "rates.jsonl")
        assert found.scored.target == "success rate"
        assert ((found.prefixes["label"] * 32) % 1 == 0).all(), "they are shares of 32 rollouts"
        assert rates is None or len(found.prefixes) == rates
    rows = json.loads((DATA / "processbench_math.json").read_text(encoding="utf-8"))[:60]
    scored_rows = [{**row, "scores": [0.5] * len(row["steps"])} for row in rows]
    (tmp_path / "math.json").write_text(json.dumps(scored_rows), encoding="utf-8")
    found = audit(tmp_path / "math.json")
    assert found.solutions["label"].tolist() == [float(row["label"] == -1) for row in rows]
