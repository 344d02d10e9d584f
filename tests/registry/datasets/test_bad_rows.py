"""Bad rows are reported all at once or left out, and what is no error is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Prefix, Sampling
from prmcal.errors import DataError
from prmcal.registry.grading import grade_answer
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.steps import split_steps, text_so_far

GOOD = {"question": "1+1?", "answer": "2"}


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


def test_all_bad_rows_are_reported_at_once_and_can_be_skipped(tmp_path: Path) -> None:
    bad = ['{"question": ', {**GOOD, "answer": ""}, ["x"], {}, {**GOOD, "level": []}, {"question": "q"}, "no"]
    path = write(tmp_path / "own.jsonl", GOOD, *bad, {**GOOD, "question": "2+0?"})
    with pytest.raises(DataError) as raised:
        datasets.create("jsonl", path=path).questions("test")
    message = str(raised.value)
    assert "7 bad rows among 9" in message
    assert all(f"line {number}: " in message for number in range(2, 7))
    assert "and 2 more. Set 'skip_bad_rows: true'" in message
    assert "\n" not in message
    with pytest.warns(UserWarning, match="7 of 9 rows were skipped"):
        found = datasets.create("jsonl", path=path, skip_bad_rows=True).questions("test")
    assert [each.text for each in found] == ["1+1?", "2+0?"]


def test_bad_rows_of_a_recording_can_be_skipped(tmp_path: Path) -> None:
    good = {"question": "1+1?", "answer": "2", "solutions": ["\\boxed{2}"], "logits": [1.0]}
    path = write(tmp_path / "recording.jsonl", good, {**good, "solutions": []}, {**good, "question": ""})
    llm = llms.create("recorded", path=path)
    with pytest.raises(DataError, match=r"2 bad rows among 3: line 2: .*; line 3: .*skip_bad_rows"):
        llm.generate([Prefix("1+1?")], 1, Sampling(), 0)
    with pytest.warns(UserWarning, match="2 of 3 rows were skipped"):
        llm = llms.create("recorded", path=path, skip_bad_rows=True)
        assert llm.generate([Prefix("1+1?")], 1, Sampling(), 0)[0][0].text == "\\boxed{2}"


@given(
    st.one_of(st.integers(-9, 99), st.floats(0, 9).map(lambda each: round(each, 2)), st.sampled_from(["easy", "A1"]))
)
def test_a_level_is_kept_as_it_is(tmp_path_factory: pytest.TempPathFactory, level: Any) -> None:
    path = write(tmp_path_factory.mktemp("level") / "own.jsonl", {**GOOD, "level": level})
    assert datasets.create("jsonl", path=path).questions("test")[0].level == level


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n", "is a pointer of Git LFS"),
        (b'{"examples": [{"question": "1+1?", "answer": "2"}]}', "JSON object where a list .* in 'examples'"),
        (b'{\n "question": "1+1?",\n "answer": "2"\n}', "JSON object where a list of records is expected"),
    ],
)
def test_a_file_of_another_kind_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(content)
    with pytest.raises(DataError, match=message):
        datasets.create("jsonl", path=str(tmp_path / "own.json")).questions("test")


@pytest.mark.parametrize("name", ["own.jsonl", "own.json"])
def test_a_byte_order_mark_is_no_error(name: str, tmp_path: Path) -> None:
    content = json.dumps([GOOD]) if name == "own.json" else json.dumps(GOOD)
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert datasets.create("jsonl", path=str(tmp_path / name)).questions("test")[0].answer == "2"


def test_any_of_several_accepted_answers_is_right(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", {**GOOD, "answer": ["108"]}, {**GOOD, "answer": ["1/2", "\\text{half}"]})
    one, two = (each.answer for each in datasets.create("jsonl", path=path).questions("test"))
    assert one == "108"
    assert [grade_answer(each, two) for each in ("0.5", "half", "0.6")] == ["correct", "correct", "incorrect"]


@pytest.mark.parametrize(
    ("between", "splitting"),
    [
        ("\r\n\r\n", "blank-line"),
        ("\n \t\n", "blank-line"),
        ("\r\r", "blank-line"),
        ("\n", "lines"),
        (" ", "sentences"),
    ],
)
def test_steps_of_recordings_are_found_whatever_separates_them(between: str, splitting: str, tmp_path: Path) -> None:
    texts = [f"We add.{between}It is {end}." for end in ("2", "3")]
    record = {"question": "1+1?", "solutions": texts, "logits": [[0.0, 1.0, 2.0], [0.0, 1.0, -2.0]]}
    path = write(tmp_path / "recording.jsonl", record)
    llm = llms.create("recorded", path=path, splitting=splitting)
    scores = prms.create("recorded", path=path, splitting=splitting)
    from prmcal.harness.jobs.stepping import in_steps

    bare = Prefix("1+1?")
    stored = in_steps(llm, bare, llm.generate([bare], 2, Sampling(), 0)[0])
    steps = [split_steps(each.text) for each in stored]
    assert steps == [("We add.", "It is 2."), ("We add.", "It is 3.")]
    assert text_so_far(steps[0][:1]) == f"We add.{between}"
    found = scores.score("1+1?", steps)
    assert [each.logit.tolist() for each in found] == record["logits"]
    rest = llm.generate([Prefix("1+1?", steps[0][:1])], 2, Sampling(), 0)[0]
    assert [each.text for each in rest] == ["It is 2.", "It is 3."]
