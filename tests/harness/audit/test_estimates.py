"""The numbers of an audit are right where the truth is known, and honest where nothing can be seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prmcal.harness.audit.audit import Audit, audit
from prmcal.harness.audit.estimates import CALIBRATORS, Number, Rows, calibrated_rewards, fit_calibrator
from prmcal.harness.audit.verdict import enough
from tests.conftest import ROOT

QUESTIONS, SOLUTIONS = 150, 4


def world(shift: float, seed: int = 0, spread: float = 1.5, questions: int = QUESTIONS) -> pd.DataFrame:
    """Return whole solutions whose score is the chance of success, moved by `shift` in log-odds."""
    random = np.random.default_rng(seed)
    logits = np.repeat(random.normal(0, spread, questions), SOLUTIONS) + random.normal(0, 1, questions * SOLUTIONS)
    chance = 1 / (1 + np.exp(-logits))
    return pd.DataFrame(
        {
            "question": np.repeat([f"q{each}" for each in range(questions)], SOLUTIONS),
            "score": 1 / (1 + np.exp(-logits - shift)),
            "correct": random.random(len(chance)) < chance,
            "chance": chance,
        }
    )


@pytest.fixture(scope="module")
def shifted() -> tuple[pd.DataFrame, Audit]:
    table = world(1.2)
    return table, audit(table.drop(columns="chance"))


def test_overestimation_is_measured_and_repaired(shifted: tuple[pd.DataFrame, Audit]) -> None:
    table, found = shifted
    truth = float((table["score"] - table["chance"]).mean())
    error = found.measured.signed_error
    assert error.low < truth < error.high
    assert error.value == pytest.approx(float((table["score"] - table["correct"]).mean()))
    assert found.measured.gain.low > 0
    best = float(((table["score"] - table["chance"]) ** 2).mean())  # the most that a calibrator can cut
    assert found.measured.gain.value < best * 1.5
    assert found.measured.chosen


def test_reliability_is_that_of_brute_force(shifted: tuple[pd.DataFrame, Audit]) -> None:
    table, found = shifted
    bins = found.measured.reliability["as they are"]
    ordered = table.sort_values("score")
    first = ordered.head(bins[0].prefixes)
    assert sum(each.prefixes for each in bins) == len(table)
    assert max(each.prefixes for each in bins) - min(each.prefixes for each in bins) <= 1
    assert bins[0].score == pytest.approx(first["score"].mean())
    assert bins[0].right.value == pytest.approx(first["correct"].mean())
    overestimated = [each.score - each.right.value for each in found.measured.reliability["calibrated"]]
    assert max(map(abs, overestimated)) < 0.15
    assert max(each.score - each.right.value for each in bins) > 0.15


def test_calibrated_scores_need_no_calibrator() -> None:
    found = audit(world(0.0).drop(columns="chance"))
    error, gain = found.measured.signed_error, found.measured.gain
    assert error.low < 0 < error.high
    assert gain.low <= 0
    assert abs(gain.value) < 0.01
    assert "not clearly too high or too low" in str(found)


def test_few_questions_are_said_first() -> None:
    text = " ".join(str(audit(world(0.3, questions=8).drop(columns="chance"))).split())
    assert "Only 8 questions" in text
    assert "Too few to say whether a calibrator helps" in text


def test_ways_to_choose_are_those_of_brute_force(shifted: tuple[pd.DataFrame, Audit]) -> None:
    table, found = shifted
    assert found.choices is not None
    rows = {row.name: row for row in found.choices.rows}
    groups = table.groupby("question", sort=False)
    best = groups.apply(lambda group: group.loc[group["score"].idxmax(), "correct"], include_groups=False)
    assert rows[f"best-of-{SOLUTIONS}"].accuracy.value == pytest.approx(best.mean())
    assert rows["one sample"].accuracy.value == pytest.approx(table["correct"].mean())
    assert rows["one sample"].samples == 1
    for row in rows.values():
        assert 0 <= row.accuracy.low <= row.accuracy.value <= row.accuracy.high <= 1
        assert row.against is not None
        assert row.against.value == pytest.approx(row.accuracy.value - table["correct"].mean())
    assert any("votes" in line for line in found.choices.missing)


def test_a_gain_is_recommended_with_what_is_promised(shifted: tuple[pd.DataFrame, Audit]) -> None:
    _, found = shifted
    assert found.choices is not None
    best = found.choices.best
    assert best.against is not None and best.against.low > 0
    assert found.choices.is_promised
    assert f"Use '{best.name}'" in str(found)
    random = pd.DataFrame(world(0.0, seed=9)).drop(columns="chance")
    random["score"] = np.random.default_rng(0).random(len(random))
    nothing = audit(random)
    assert nothing.choices is not None and not nothing.choices.is_promised
    assert "No clear gain from several samples" in str(nothing)


def test_the_order_of_the_rows_does_not_matter(shifted: tuple[pd.DataFrame, Audit]) -> None:
    table, found = shifted
    assert found.choices is not None
    mixed = audit(table.drop(columns="chance").sample(frac=1, random_state=3))
    assert mixed.choices is not None
    for row, other in zip(found.choices.rows, mixed.choices.rows, strict=True):
        if row.name in ("one sample", f"best-of-{SOLUTIONS}"):
            assert row.accuracy.value == pytest.approx(other.accuracy.value)


def test_the_shipped_file_shows_a_clear_repair() -> None:
    found = audit(ROOT / "grids" / "scored.jsonl")
    assert found.choices is not None and found.choices.is_promised
    assert found.measured.is_repaired
    assert found.measured.by_step["bare question"].low > 0
    assert len(str(found).splitlines()) <= 25


def test_the_questions_that_would_be_needed() -> None:
    half = 0.02
    gain = Number(0.01, 0.01 - half, 0.01 + half, 100)
    # 2.8 standard errors, where the half width is 1.96 of them: (2.8 / 1.96 * 2) ** 2 times as many questions.
    assert 100 * (2.8 / 1.96 * 2) ** 2 < 1000 and enough(gain) == " Hundreds of questions would show it."
    assert enough(Number(0.0, -1, 1, 5)) == ""


def test_a_fit_to_many_prefixes_is_that_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(0.7, questions=2_000)
    rows = Rows(table.rename(columns={"score": "reward", "correct": "label"}).assign(question=0))
    for name in CALIBRATORS:
        joined = calibrated_rewards(fit_calibrator(name, rows), rows)
        with monkeypatch.context() as patched:
            patched.setattr("prmcal.harness.audit.estimates._GROUPS", len(table))
            whole = calibrated_rewards(fit_calibrator(name, rows), rows)
        assert np.abs(joined - whole).mean() < 0.002


def test_twelve_questions_that_agree_are_no_certainty() -> None:
    """All answers are right and all scores are 1: the error of the next question is not known to be 0."""
    certain = pd.DataFrame({"question": [f"q{each}" for each in range(12)], "score": 1.0, "correct": True})
    found = audit(certain).measured
    assert found.signed_error.value == 0
    assert found.signed_error.low < -0.03
    assert found.signed_error.high > 0.03
    (share,) = found.reliability["as they are"]
    assert share.right.value == share.right.high == 1
    assert share.right.low < 0.9
