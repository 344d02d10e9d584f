"""The record of a verification: what is wrong in it is refused when it is written, and when it is read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import DataError
from prmcal.harness.share.verify_record import Check, Verification, read_verification, write_verification

CHECK = Check("consistent", "keys", True, 3, "All 3 keys hash to themselves.")
RECORD = Verification(
    "0123456789ab", "consistent", True, "Grace", "2026-11-02T10:00:00+00:00", "0.2.0", 7, (CHECK,)
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_verification(tmp_path / "r.json", RECORD)
    assert read_verification(tmp_path / "r.json") == RECORD


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("verified_at", "0001-01-01T00:00:00+14:00", "its 'verified_at' is no time: '0001-01-01"),
        ("verified_at", "9999-12-31T23:59:59-14:00", "its 'verified_at' is no time: '9999-12-31"),
        ("verified_at", "nonsense", "its 'verified_at' is no time: 'nonsense'"),
        ("verified_by", "\ud800", r"its 'verified_by' has half of a surrogate pair .*: \\ud800"),
        (
            "checks",
            [dataclasses.asdict(CHECK) | {"cells": ["\ud800"]}],
            "its 'checks' has half of a surrogate pair",
        ),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, name: str, value: Any, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**json.loads(RECORD.text()), name: value}))
    with pytest.raises(DataError, match=message) as raised:
        read_verification(path)
    assert str(path) in str(raised.value)


def test_a_name_that_is_not_utf_8_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"'verified_by' has half of a surrogate pair .*Write the name in UTF-8"
    ):
        write_verification(tmp_path / "r.json", dataclasses.replace(RECORD, verified_by="\udcff"))
    assert not list(tmp_path.iterdir())
