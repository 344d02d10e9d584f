"""The tests behind the checks keep their level, and records and tolerances are what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from prmcal.errors import DataError
from prmcal.harness.share.submissions import Check, Verification, read_verification, write_verification
from prmcal.harness.verify.again import ROUNDING, column_flaws
from prmcal.harness.verify.tiers import same_chance

RECORD = Verification(
    "0123456789ab",
    "scored again",
    False,
    "A. Tester",
    "2026-11-23T20:00:00+00:00",
    "1.0",
    7,
    (
        Check("consistent", "keys", True, 51, "All 51 keys hash to themselves."),
        Check("scored again", "scores", False, 12, "2 of 12 logits differ.", ("a cell",)),
    ),
)


def test_a_record_survives_the_file(tmp_path: Path) -> None:
    write_verification(tmp_path / "record.json", RECORD)
    assert read_verification(tmp_path / "record.json") == RECORD


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 2}, "has format 2"),
        ({"tier": "believed"}, "tier: Input should be 'consistent', 'graded again', "),
        ({"passed": True}, "one of its checks did not"),
        ({"passed": 1}, "passed: Input should be a valid boolean"),
        ({"seed": True}, "seed: Input should be a valid integer"),
        ({"verified_at": "yesterday"}, "'verified_at' is no time: 'yesterday'"),
        ({"verified_at": "0001-01-01T00:00:00+14:00"}, "'verified_at' is no time"),
        ({"verified_by": "\ud800"}, "is no verification: Invalid JSON"),
        ({"checks": [{"tier": "consistent"}]}, "checks.0.check: "),
        ({"more": 1}, "more: "),
    ],
)
def test_a_wrong_record_is_refused(change: dict[str, object], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(RECORD.text()) | change))
    with pytest.raises(DataError, match=problem):
        read_verification(path)


def test_a_record_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(RECORD.text()[:40])
    with pytest.raises(DataError, match="not JSON"):
        read_verification(tmp_path / "record.json")


@given(st.integers(0, 12), st.integers(0, 16))
def test_for_one_question_the_test_of_chances_is_fishers(c: int, k: int) -> None:
    found = same_chance(np.array([c]), np.array([12]), np.array([k]), np.array([16]))
    table = [[c, 12 - c], [k, 16 - k]]
    tails = [fisher_exact(table, alternative=each).pvalue for each in ("less", "greater")]
    assert found.p_value == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6)


def test_honest_counts_seldom_differ() -> None:
    random = np.random.default_rng(1)
    below = 0
    for _ in range(200):
        p = random.beta(0.5, 0.5, 20)
        m, n = np.full(20, 8), np.full(20, 16)
        found = same_chance(random.binomial(m, p), m, random.binomial(n, p), n)
        below += found.p_value < 0.05
    assert below <= 20  # 10 expected of an exact test, and fewer since counts are whole numbers


def test_only_rounding_errors_are_forgiven() -> None:
    stored = pa.table({"metric": ["a", "b", None], "value": [0.5, None, 1e6]})
    close = pa.table({"metric": ["a", "b", None], "value": [0.5 * (1 + 1e-12), None, 1e6 * (1 - 1e-10)]})
    far = pa.table({"metric": ["a", "c", None], "value": [0.5, 0.0, 1e6 + 1]})
    assert not list(column_flaws("results", stored, close, ROUNDING))
    flaws = list(column_flaws("results", stored, far, ROUNDING))
    assert len(flaws) == 2
    assert "1 of 3 values of 'metric'" in flaws[0]
    assert "2 of 3 values of 'value' in 'results' differ by up to 1" in flaws[1]
    assert "3 rows, and 2 when" in next(column_flaws("results", stored, far.slice(0, 2), ROUNDING))


def test_a_name_that_is_not_utf_8_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"'verified_by' has half of a surrogate pair .*Write the name in UTF-8"
    ):
        write_verification(tmp_path / "r.json", replace(RECORD, verified_by="\udcff"))
    assert not list(tmp_path.iterdir())
