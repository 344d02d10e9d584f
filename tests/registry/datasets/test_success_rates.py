"""The data set `success-rates`: trajectories are rebuilt from published prefixes, and invalid records are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import DataError, InvalidArgumentsError
from prmcal.registry.conformance import checks_of
from prmcal.registry.datasets.success_rates import SuccessRates
from prmcal.registry.plugins import datasets

TREE = [("", 0.5), ("a", 0.75), ("a\n\nb", 1.0), ("c", 0.25), ("", 0.375)]


def built(tmp_path: Path, records: list[Any]) -> SuccessRates:
    (tmp_path / "data.json").write_text(json.dumps(records))
    plugin = datasets.create("success-rates", files={"llm": str(tmp_path / "data.json")})
    assert isinstance(plugin, SuccessRates)
    return plugin


def published(prefix: str, rate: Any, **fields: Any) -> dict[str, Any]:
    return {"question": "1+1?", "reasoning_prefix": prefix, "success_prob": rate, **fields}


def test_trajectories_end_where_no_prefix_goes_on_and_every_row_counts_once(tmp_path: Path) -> None:
    plugin = built(tmp_path, [published(*each) for each in TREE])
    first, second = plugin.trajectories("llm", 8)["1+1?"]
    assert (first.steps, first.counts) == (("a", "b"), {0: (4, 8), 1: (6, 8), 2: (8, 8)})
    assert (second.steps, second.counts) == (("c",), {0: (3, 8), 1: (2, 8)})
    assert [(each.id, each.text) for each in plugin.questions("calibration")] == [("1", "1+1?")]
    for check in checks_of(plugin):
        check(plugin)


def test_a_trajectory_id_groups_prefixes(tmp_path: Path) -> None:
    rows = [published("a", 1.0, trajectory=0), published("a\n\nb", 0.5, trajectory=1, follow_ups=4)]
    first, second = built(tmp_path, rows).trajectories("llm", 8)["1+1?"]
    assert (first.steps, first.counts) == (("a",), {1: (8, 8)})
    assert (second.steps, second.counts) == (("a", "b"), {2: (2, 4)})


def test_a_trajectory_that_another_one_continues_keeps_its_rows(tmp_path: Path) -> None:
    """Three trajectories: a and b, only a, and one whose first step already has the answer."""
    rows = [("", 0.5), ("a", 0.75), ("a\n\nb", 1.0), ("", 0.25), ("a", 0.5), ("", 0.125)]
    plugin = built(tmp_path, [published(*each) for each in rows])
    found = plugin.trajectories("llm", 8)["1+1?"]
    assert [(each.steps, each.counts) for each in found] == [
        (("a", "b"), {0: (4, 8), 1: (6, 8), 2: (8, 8)}),
        (("a",), {0: (2, 8), 1: (4, 8)}),
        ((), {0: (1, 8)}),
    ]


def test_a_split_has_its_own_rows_and_those_without_a_split(tmp_path: Path) -> None:
    rows = [published("a", 1.0, split="test"), published("b", 0.5, split="calibration"), published("c", 0.0)]
    plugin = built(tmp_path, rows)
    for split, step in (("test", "a"), ("calibration", "b")):
        found = plugin.trajectories("llm", 8, split)["1+1?"]
        assert [each.steps for each in found] == [(step,), ("c",)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"question": "1+1?", "answer": "2"},
            r"record 1: it must have a 'question', .* Its fields are: question, answer",
        ),
        ("text", r"record 1: it must have a 'question'"),
        (published("a", 1.5), r"its success rate a number in \[0, 1\]. Got 'a' and 1.5"),
        (published("a", None), r"Got 'a' and None"),
        (published("a", 0.3), r"record 1: the success rate 0.3 is not a multiple of 1/8. Set 'follow_ups'"),
        (published("a", 0.5, follow_ups=0), r"'follow_ups' must be an int in \[1, 1000000\]. Got 0"),
        (published("a", 0.5, llm="other"), r"contains no calibration prefixes of the LLM 'llm'"),
    ],
)
def test_invalid_records_are_refused(record: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        built(tmp_path, [record]).trajectories("llm", 8)


def test_missing_files_and_llms_are_named(tmp_path: Path) -> None:
    absent = datasets.create("success-rates", files={"llm": "gone.json"}, expected=60)
    assert absent.absent_size("test") == 60
    with pytest.raises(DataError, match=r"The file of success rates gone.json does not exist. .*hf download"):
        absent.questions("test")
    with pytest.raises(InvalidArgumentsError, match="must name a file for each LLM"):
        datasets.create("success-rates", files={})
    with pytest.raises(DataError, match=r"no file for the LLM 'another'. It has files for: llm"):
        built(tmp_path, [published("a", 1.0)]).trajectories("another", 8)
