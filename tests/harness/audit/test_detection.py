"""The F1 of finding the first wrong step is that of ProcessBench, and a threshold is tuned on other questions."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.detection import detection
from tests.harness.audit import files
from tests.harness.audit.test_reading import rows_of


def f1(predicted: list[int], first_wrong: list[int]) -> float:
    """The definition, with -1 for no wrong step."""
    hits = [
        [a == b for a, b in zip(predicted, first_wrong, strict=True) if (b == -1) == right]
        for right in (0, 1)
    ]
    a, b = (sum(each) / len(each) for each in hits)
    return 2 * a * b / (a + b)


def first_below(scores: list[float], threshold: float) -> int:
    return next((step for step, score in enumerate(scores) if score < threshold), -1)


def test_f1_at_a_half_is_that_of_the_definition() -> None:
    found = rows_of(files.processbench_with_scores())
    calibrated = found.prefixes["reward"].to_numpy() ** 2
    plain, squared, _ = detection(found.prefixes, calibrated, pd.Series(dtype=object), Bootstrap(200, 0))
    wrong = [each["wrong"] for each in files.solutions()]
    for way, threshold in ((plain, 0.5), (squared, 0.5**0.5)):
        expected = f1([first_below(each["scores"], threshold) for each in files.solutions()], wrong)
        assert way.value == pytest.approx(expected)
        assert way.low <= way.value <= way.high
        assert way.solutions == len(wrong)


def test_the_threshold_of_a_subset_is_tuned_on_the_others() -> None:
    # In each subset, another threshold is perfect. It is 0.7 in "a" and 0.2 in "b".
    rows = [
        (question, step, score, label)
        for question in range(40)
        for step, (score, label) in enumerate(
            [(0.9, 1.0), (0.6, 0.0)] if question % 2 == 0 else [(0.3, 1.0), (0.1, 0.0)], start=1
        )
    ]
    rows += [(40, 1, 0.9, 1.0), (41, 1, 0.3, 1.0)]  # Right solutions.
    frame = pd.DataFrame(rows, columns=["question", "step", "reward", "label"]).assign(solution=0)
    subsets = pd.Series(["a" if number % 2 == 0 else "b" for number in range(42)])
    _, tuned = detection(frame, None, subsets, Bootstrap(100, 0))
    assert tuned.way == "threshold tuned on other subsets"
    assert tuned.value == 0, "a threshold of its own subset would find all"
    own = detection(
        frame[frame["question"] % 2 == 0].reset_index(drop=True), None, subsets, Bootstrap(100, 0)
    )
    assert own[1].way == "threshold tuned on the other half"


def test_an_audit_of_processbench_prints_f1_next_to_published_values(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(json.dumps(files.processbench()))
    (tmp_path / "scores.json").write_text(json.dumps(files.scores_of_processbench()))
    found = audit([tmp_path / "labels.json", tmp_path / "scores.json"])
    assert "F1 of finding the first wrong step: threshold 1/2 0." in " ".join(str(found).split())
    assert "Qwen2.5-Math-PRM-7B 0.735" in " ".join(str(found).split())
    assert found.tables["detection"]["way"].iloc[0] == "threshold 1/2"


def test_files_without_marked_errors_have_no_f1() -> None:
    assert "F1" not in str(audit(pd.DataFrame(files.whole_solutions())))
