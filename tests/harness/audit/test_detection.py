"""The F1 of finding the first wrong step is that of ProcessBench, and a threshold is tuned on other questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.detection import CATEGORIES, PRM_SCORES, detection
from tests.harness.audit import files
from tests.harness.audit.test_reading import rows_of


def f1(predicted: list[int], first_wrong: list[int]) -> float:
    """The definition, with -1 for no wrong step."""
    hits = [[a == b for a, b in zip(predicted, first_wrong, strict=True) if (b == -1) == right] for right in (0, 1)]
    a, b = (sum(each) / len(each) for each in hits)
    return 2 * a * b / (a + b)


def first_below(scores: list[float], threshold: float) -> int:
    return next((step for step, score in enumerate(scores) if score < threshold), -1)


def test_f1_at_a_half_is_that_of_the_definition() -> None:
    found = rows_of(files.processbench_with_scores())
    calibrated = found.prefixes["reward"].to_numpy() ** 2
    levels = pd.Series(["math"] * len(found.prefixes))
    plain, squared, _ = detection(found.prefixes, calibrated, levels, Bootstrap(200, 0))
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
    subsets = frame["question"].map(lambda number: "a" if number % 2 == 0 else "b")
    _, tuned = detection(frame, None, subsets, Bootstrap(100, 0))
    assert tuned.way == "threshold tuned on other subsets"
    assert tuned.value == 0, "a threshold of its own subset would find all"
    even = frame["question"] % 2 == 0
    own = detection(frame[even].reset_index(drop=True), None, subsets[even].reset_index(drop=True), Bootstrap(100, 0))
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


def prm_score(taken: list[bool], right: list[bool]) -> float:
    """The definition, by precision and recall."""

    def f1(kind: bool) -> float:
        hits = sum(a == b == kind for a, b in zip(taken, right, strict=True))
        precision, recall = hits / max(taken.count(kind), 1), hits / max(right.count(kind), 1)
        return 2 * precision * recall / (precision + recall) if hits else 0.0

    return f1(True) if all(right) else (f1(True) + f1(False)) / 2


def prmbench() -> list[dict[str, Any]]:
    """Changed solutions of all categories. A step behind a wrong one can be right."""
    random = np.random.default_rng(0)
    rows = []
    for number, each in enumerate(files.solutions()):
        kind = list(CATEGORIES)[number % len(CATEGORIES)]
        marked = random.random(len(each["steps"])) < (0.0 if kind == "multi_solutions" else 0.4)
        rows.append(
            {
                "original_question": each["question"],
                "modified_process": each["steps"],
                "error_steps": [step for step, wrong in enumerate(marked, start=1) if wrong],
                "classification": kind,
                "idx": f"{kind}_{number}",
                "scores": each["scores"],
            }
        )
    return rows


def test_prm_scores_are_those_of_the_definition(tmp_path: Path) -> None:
    (tmp_path / "prmbench.json").write_text(json.dumps(prmbench()))
    found = audit(tmp_path / "prmbench.json")
    table = found.tables["prmscore"].set_index("category")
    assert list(table.index) == ["overall", *CATEGORIES.values()]
    for category, row in table.iterrows():
        own = [each for each in prmbench() if category in ("overall", CATEGORIES[each["classification"]])]
        steps = [(each, step) for each in own for step in range(len(each["scores"]))]
        taken = [each["scores"][step] > 0.5 for each, step in steps]
        right = [step + 1 not in each["error_steps"] for each, step in steps]
        assert row["score"] == pytest.approx(prm_score(taken, right))
        assert row["score_low"] <= row["score"] <= row["score_high"]
        assert row["steps"] == len(steps)
    assert table.loc["overall", "Qwen2.5-Math-PRM-7B"] == 0.655
    assert {len(values) for values in PRM_SCORES.values()} == {len(table)}
    text = " ".join(str(found).split())
    assert "PRMScore of finding all wrong steps, with the threshold 1/2: 0." in text
    assert "Published overall: Qwen2.5-Math-PRM-72B 0.682" in text
    assert list(found.measured.by_level) == sorted(CATEGORIES)
    assert len(str(found).splitlines()) <= 45
