"""Data files of strangers: whatever is in them, they are read, or refused with a message about the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Prefix, Sampling
from prmcal.errors import DataError, InvalidArgumentsError
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.registry.reading.records import read_records
from prmcal.steps import split_steps
from tests.mutations import FEW, changed, reads_or_refuses

QUESTION = {"question": "1+1?", "answer": "so\n#### 2", "id": "a", "level": "Level 3", "subject": "sums"}
RECORDING = {
    "question": "1+1?",
    "answer": "2",
    "solutions": ["a\n\n\\boxed{2}", {"text": "\\boxed{3}", "tokens": 3, "finish_reason": "stop"}],
    "logits": [1.5, [0.5, -0.5]],
    "follow_ups": [{"prefix": ["a"], "completions": ["\\boxed{2}", "b"]}],
}
RATE = {
    "question": "1+1?",
    "reasoning_prefix": "a\n\nb",
    "success_prob": 0.5,
    "follow_ups": 8,
    "trajectory": 0,
    "llm": "m",
    "split": "calibration",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


def use_questions(path: Path) -> None:
    for plugin in ("jsonl", "aime24"):
        dataset = datasets.create(plugin, path=str(path))
        dataset.identity()
        content_hash(dataset.questions("test"))


def use_recording(path: Path) -> None:
    llm, prm = llms.create("recorded", path=str(path)), prms.create("recorded", path=str(path))
    llm.identity(), prm.identity()
    whole, _ = llm.generate([Prefix("1+1?"), Prefix("1+1?", ("a",))], 2, Sampling(), 0)
    prm.score("1+1?", [split_steps(each.text) for each in whole])


def use_success_rates(path: Path) -> None:
    from prmcal.registry.datasets import success_rates

    success_rates._rows.cache_clear()
    dataset = datasets.create("success-rates", files={"m": str(path)})
    assert isinstance(dataset, success_rates.SuccessRates)
    dataset.identity()
    dataset.questions("calibration")
    dataset.trajectories("m", 8)


USES = [(QUESTION, use_questions), (RECORDING, use_recording), (RATE, use_success_rates)]


@pytest.mark.parametrize(("record", "use"), USES, ids=["questions", "recording", "success rates"])
@given(data=st.data())
@FEW
def test_changed_records(record: dict[str, Any], use: Any, folder: Path, data: st.DataObject) -> None:
    lines = [json.dumps(each) for each in (data.draw(changed(record)), {**record, "question": "2+2?", "id": 2})]
    suffix = data.draw(st.sampled_from(["json", "jsonl"]))
    path = folder / f"changed.{suffix}"
    path.write_text(f"[{','.join(lines)}]" if suffix == "json" else "\n".join(lines))
    reads_or_refuses(lambda: use(path))


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
def test_a_folder_in_the_place_of_a_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"own.{suffix}"
    path.mkdir()
    with pytest.raises(DataError, match=rf"own\.{suffix} is a folder without a data set"):
        read_records(path)
    for registry in (llms, prms):
        with pytest.raises(InvalidArgumentsError, match="There is no recording"):
            registry.create("recorded", path=str(path))
    with pytest.raises(DataError, match="does not exist"):
        datasets.create("success-rates", files={"m": str(path)}).questions("test")


@pytest.mark.parametrize(
    ("record", "use", "change", "message"),
    [
        (RATE, use_success_rates, {"trajectory": [1]}, "its 'trajectory' must be a string or an int"),
        (RATE, use_success_rates, {"follow_ups": 10**400}, "its 'follow_ups' must be an int in"),
        (RATE, use_success_rates, {"success_prob": float("nan")}, "its success rate a number in"),
        (
            RECORDING,
            use_recording,
            {"logits": [10**400, 0]},
            "must have one score, ",
        ),
        (
            RECORDING,
            use_recording,
            {"solutions": [{"text": "a", "tokens": 2**31}] * 2},
            "the tokens or the cost of a solution must be a whole",
        ),
        (
            QUESTION,
            use_questions,
            {"answer": float("inf")},
            "its 'answer' must be a string or a number, or a list of accepted ones. Got inf",
        ),
    ],
)
def test_values_that_no_result_can_hold(
    record: dict[str, Any], use: Any, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({**record, **change}) + "\n")
    with pytest.raises(DataError, match=rf"own\.jsonl, line 1: .*{message}"):
        use(path)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("2 + 2 = 4\n#### 4", "4"),
        ("2 + 2 = 4\n####4 \n\n", "4"),
        ("working\nA: 12 apples", "12 apples"),
        ("A: 12", "A: 12"),
        ("working\n####", "working\n####"),
        ("#### 4\nno", "#### 4\nno"),
    ],
)
def test_the_answer_is_the_last_line_after_its_working(answer: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({**QUESTION, "answer": answer}) + "\n")
    (question,) = datasets.create("jsonl", path=str(path)).questions("test")
    assert question.answer == expected
