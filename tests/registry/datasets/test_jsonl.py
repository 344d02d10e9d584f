"""The data set `jsonl`: valid files are read, and errors name the invalid line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prmcal import Question
from prmcal.errors import DataError, InvalidArgumentsError
from prmcal.registry.conformance import parametrize_with_checks
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.contracts.grader import GradingRequest
from prmcal.registry.plugins import datasets, graders
from tests.conftest import ROOT

DATA = ROOT / "tests" / "recorded"
GOOD = {"question": "1+1?", "answer": "2"}


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


def read(path: str, split: str = "test", count: int | None = None, **arguments: Any) -> list[Question]:
    found: list[Question] = datasets.create("jsonl", path=path, **arguments).questions(split, count)
    return found


def test_fields_and_their_other_names(tmp_path: Path) -> None:
    path = write(
        tmp_path / "own.jsonl",
        {"question": "1+1?", "answer": 2, "id": "first", "level": "Level 3", "subject": "sums", "extra": [1]},
        "",
        {"problem": "2+2?", "answer": "4", "level": 1},
        {"question": "35+35?", "answer": 70.0, "unique_id": "x/y.json", "level": "Level ?"},
    )
    assert read(path) == [
        Question("first", "1+1?", "2", 3, "sums"),
        Question("3", "2+2?", "4", 1, None),
        Question("x/y.json", "35+35?", "70", None, None),
    ]
    assert read(path, count=2) == read(path)[:2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "1+1?", "answer": ', "it is not JSON"),
        ('["1+1?", "2"]', "it must be a JSON object with 'question' and 'answer'"),
        ({"answer": "2"}, "it has neither a 'question' nor a 'problem'"),
        ({"question": " ", "answer": "2"}, "its question must be a non-empty string"),
        ({"question": 7, "answer": "2"}, "its question must be a non-empty string. Got 7"),
        ({"question": "1+1?"}, "it has no 'answer'"),
        ({"question": "1+1?", "answer": None}, "it has no 'answer'"),
        (
            {"question": "1+1?", "answer": []},
            r"its 'answer' must be a string or a number, or a list.* Got \[\]",
        ),
        ({**GOOD, "level": [6]}, r"its 'level' must be a number or a word. Got \[6\]"),
        ({**GOOD, "subject": 3}, "its 'subject' must be a string"),
        ({**GOOD, "id": True}, "its 'id' must be a string or a number"),
        ({**GOOD, "id": "a"}, "the id 'a' is already used in line 1"),
    ],
)
def test_a_broken_line_is_named(line: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", {**GOOD, "id": "a"}, "", line)
    with pytest.raises(DataError, match=rf"own\.jsonl, line 3: {message}"):
        read(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(b'{"question": "1+1?", "answer": "2"}\n{"question": "\xff", "answer": "2"}\n')
    with pytest.raises(DataError, match="line 2: it is not UTF-8 text"):
        read(str(path))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "its lists and objects are nested too deeply"),
    ],
    ids=["nested"],
)
def test_json_that_cannot_be_held_is_refused(value: str, message: str, tmp_path: Path) -> None:
    record = f'{{"question": "1+1?", "answer": {value}}}'
    with pytest.raises(DataError, match=rf"own\.jsonl, line 2: {message}"):
        read(write(tmp_path / "own.jsonl", GOOD, record))
    with pytest.raises(DataError, match=rf"own\.json is not a valid JSON list: {message}"):
        read(write(tmp_path / "own.json", f"[{record}]"))


def test_escaped_characters_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", '{"question": "\\ud83d\\ude00?", "answer": "2"}')
    assert read(path)[0].text == "\N{GRINNING FACE}?"


def test_files_and_splits_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", GOOD)
    with pytest.raises(DataError, match=r"has no split 'calibration'.*Give its 'calibration' argument a file"):
        read(path, split="calibration")
    with pytest.raises(DataError, match="has 1 questions, fewer than the 2"):
        read(path, count=2)
    with pytest.raises(DataError, match=r"missing\.jsonl cannot be read: No such file"):
        read(str(tmp_path / "missing.jsonl"))
    with pytest.raises(DataError, match="contains no questions"):
        read(write(tmp_path / "empty.jsonl", ""))


def test_a_calibration_file_is_a_split(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", GOOD)
    calibration = write(tmp_path / "more.jsonl", {"question": "2+2?", "answer": "4"})
    assert read(path, "calibration", calibration=calibration) == [Question("1", "2+2?", "4")]
    assert read(path, "test", calibration=calibration) == [Question("1", "1+1?", "2")]


def test_a_share_of_one_file_is_held_out_for_calibration(tmp_path: Path) -> None:
    lines = [{"question": f"{n}+1?", "answer": str(n + 1)} for n in range(200)]
    path = write(tmp_path / "own.jsonl", *lines)
    splits = {split: read(path, split, calibration_share=0.25) for split in ("calibration", "test")}
    assert sorted(int(each.answer) for part in splits.values() for each in part) == list(range(1, 201))
    assert 25 <= len(splits["calibration"]) <= 75
    reordered = write(tmp_path / "reordered.jsonl", *reversed(lines))
    again = read(reordered, "calibration", calibration_share=0.25)
    assert {each.text for each in again} == {each.text for each in splits["calibration"]}
    with pytest.raises(InvalidArgumentsError, match="must be less than 1"):
        read(path, calibration_share=1.5)
    with pytest.raises(InvalidArgumentsError, match="not both"):
        read(path, calibration=path, calibration_share=0.5)


@pytest.mark.parametrize(
    ("name", "size", "levels"),
    [
        ("math500_test", 20, {1, 2, 3, 4, 5}),
        ("aime24_test", 20, {None}),
        ("aime25_test", 20, {None}),
        ("math_cot_100_8samples", 20, {1, 2, 3, 4, 5}),
    ],
)
def test_published_files_are_read_as_they_are(name: str, size: int, levels: set[int | None]) -> None:
    questions = read(str(DATA / f"{name}.jsonl"))
    assert len(questions) == size
    assert {question.level for question in questions} == levels
    if name == "aime25_test":
        assert all(question.answer.isdigit() for question in questions)


@parametrize_with_checks([datasets.create("nano-math"), datasets.create("nano-aime")])
def test_the_nano_data_sets_conform(plugin: Any, check: Any) -> None:
    check(plugin)


def test_a_file_conforms(tmp_path: Path) -> None:
    from prmcal.registry.conformance import run_checks

    lines = [{"question": f"{n}+1?", "answer": str(n + 1)} for n in range(9)]
    calibration = write(tmp_path / "calibration.jsonl", *lines[5:])
    plugin = datasets.create("jsonl", path=write(tmp_path / "own.jsonl", *lines[:5]), calibration=calibration)
    assert [result for result in run_checks(plugin) if not result.passed] == []


def exam(folder: Path) -> str:
    """Return a file of questions: of the options, "0" and the sum are right, or the sum alone."""
    rows: list[dict[str, Any]] = [
        {"question": f"{place}+{place}?", "options": ["0", f"{2 * place}", "1000", "none"], "answer": answer}
        for place, answer in enumerate(["A, B", ["B", "(B)"]] * 20, start=1)
    ]
    rows.append({"question": "Which?", "choices": ["one", "two", "all of the above"], "answer": "C"})
    return write(folder / "exam.jsonl", *rows, {"question": "1+1?", "answer": "2"})


def test_options_are_shown_in_their_order_or_shuffled_by_a_seed(tmp_path: Path) -> None:
    path = exam(tmp_path)
    hidden, shown, shuffled = read(path), read(path, show_options=True), read(path, shuffle_options=7)
    assert shown[0].text == "1+1?\nA. 0\nB. 2\nC. 1000\nD. none"
    assert [(row.answer, row.options) for row in shown] == [(row.answer, row.options) for row in hidden]
    assert read(path, shuffle_options=7) == shuffled != read(path, shuffle_options=8)
    assert {row.options.index("none") for row in shuffled[:40]} == {0, 1, 2, 3}
    assert (shuffled[40].options, shuffled[41]) == (("one", "two", "all of the above"), hidden[41])
    assert content_hash(hidden) == content_hash(read(path, show_options=False)) != content_hash(shuffled)


def test_letters_of_the_reference_follow_their_options(tmp_path: Path) -> None:
    grader = graders.create("letter")
    for question, original in zip(read(exam(tmp_path), shuffle_options=7), read(exam(tmp_path)), strict=True):
        letter_of = {line[3:]: line[0] for line in question.text.splitlines()[1:]}
        options = original.options
        right = {"A, B": options[:2], "C": options[2:]}.get(original.answer, options[1:2])
        for chosen in filter(None, (right, options[:1], options[:2], options[-2:])):
            letters = ", ".join(letter_of[text] for text in chosen)
            (graded,) = grader.grade([GradingRequest(question, letters, "")])
            assert (graded.verdict == "correct") == (chosen == right)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": 1}, "its answer must be letters or texts of at most 10 options. Got '1'"),
        ({"question": "Which? (A) 0 (B) 5"}, r"its text has 'A\) 0' already"),
        ({"options": [*"0123456789!"]}, "its answer must be .* at most 10 options"),
    ],
)
def test_options_that_cannot_be_shown_are_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", {"question": "Which?", "options": ["0", "5"], "answer": "B", **change})
    with pytest.raises(DataError, match=rf"options of the question '1' cannot be shown, since {message}"):
        read(path, shuffle_options=1)
