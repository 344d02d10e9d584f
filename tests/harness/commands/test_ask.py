"""``prmcal ask``: what a person reads, what a program reads, and many questions from a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import app
from prmcal.registry.plugins import datasets
from tests.conftest import Prmcal
from tests.served_run import CELL, NAN, shared_run

QUESTIONS = [each.text for each in datasets.create("nano-math").questions("test", 10)][4:]
OPTIONS = ["--cell", CELL, "--max-samples", 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_run(tmp_path_factory)


def ask(*arguments: object, given: str | None = None) -> tuple[int, str, str]:
    """The exit code and both streams, in this process: a new one would load the models again."""
    done = CliRunner().invoke(app, ["ask", *map(str, arguments)], input=given)
    if isinstance(done.exception, PrmcalError):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_person_reads_the_answer_first_and_what_it_rests_on(folder: Path, prmcal: Prmcal) -> None:
    done = prmcal("ask", folder, QUESTIONS[0], *OPTIONS)
    assert done.returncode == 0, done.stderr
    first, empty, *others = done.stdout.splitlines()
    assert first and not empty and not done.stderr
    text = "\n".join(others)
    assert "Probability" in text and "sample" in text and "safe choice" in text
    assert "nano-prm calibrated by quantiles, for nano-weak" in text
    assert "(the bare question)" in text and "Calibrated [0.1, 0.9]" in text
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_program_reads_everything_as_json(folder: Path) -> None:
    code, out, _ = ask(folder, "-", *OPTIONS, "--format", "json", given=QUESTIONS[1])
    found = json.loads(out)
    assert code == 0 and found["question"] == QUESTIONS[1]
    assert found["cell"].endswith(CELL) and found["spent"]["samples"] == len(found["trajectories"])
    code, again, _ = ask(folder, QUESTIONS[1], *OPTIONS, "--format", "json")
    known = json.loads(again)
    assert known["answer"] == found["answer"] and known["trajectories"] == found["trajectories"]


def test_an_unsure_answer_is_not_given(folder: Path) -> None:
    _, out, _ = ask(folder, QUESTIONS[0], *OPTIONS, "--abstain-below", 0.9999999)
    assert out.splitlines()[0] in ("I don't know.", "No answer.")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_many_questions_continue_after_a_kill_and_only_bad_lines_fail(folder: Path, tmp_path: Path) -> None:
    asked, out = tmp_path / "q.jsonl", tmp_path / "deep" / "answers.jsonl"
    good = [json.dumps({"question": text, "id": f"q{place}"}) for place, text in enumerate(QUESTIONS)]
    bad = ["{", json.dumps({"text": "no"}), json.dumps(""), json.dumps({"question": f"{NAN} please"})]
    asked.write_text("\n".join([*good[:3], "", *bad, *good[3:]]) + "\n", encoding="utf-8")
    code, _, told = ask(folder, "--questions", asked, "--out", out, *OPTIONS)
    assert code == 3
    assert re.match(r"10 questions: [0-6] answers?, .*4 failed; ", told)
    assert "Line 5" in told and "JSON" in told
    whole = lines(out)
    assert [row["line"] for row in whole] == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert [bool(row.get("error")) for row in whole] == [False] * 3 + [True] * 4 + [False] * 3
    assert [row["id"] for row in whole if not row.get("error")] == [f"q{place}" for place in range(6)]

    # It was killed in the middle of the fifth row.
    text = out.read_text(encoding="utf-8").splitlines(keepends=True)
    out.write_text("".join(text[:2]) + text[2][:40], encoding="utf-8")
    ask(folder, "--questions", asked, "--out", out, *OPTIONS)
    for before, after in zip(whole, lines(out), strict=True):
        # Rewards differ in their last digits, because batches have other shapes.
        assert [before.get(name) for name in ("line", "id", "answer", "error")] == [
            after.get(name) for name in ("line", "id", "answer", "error")
        ]
        texts = [[each["text"] for each in row.get("trajectories", ())] for row in (before, after)]
        assert texts[0] == texts[1]

    with pytest.raises(PrmcalError, match="other settings"):
        ask(folder, "--questions", asked, "--out", out, "--cell", CELL, "--max-samples", 1)


def test_bad_input_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "q.jsonl").write_text('"1+1?"\n')
    for arguments, said in (
        ([folder, ""], "The question is empty"),
        ([folder, "1+1?", "--questions", tmp_path / "q.jsonl"], "not both"),
        ([folder, "--questions", tmp_path / "q.jsonl"], "needs --out"),
        ([folder, "1+1?", "--out", tmp_path / "x"], "belongs to --questions"),
        ([folder, "--questions", tmp_path / "absent", "--out", tmp_path / "x"], "cannot be read"),
        ([folder, "--questions", tmp_path / "empty.jsonl", "--out", tmp_path / "x"], "no questions"),
        (
            [folder, "--questions", tmp_path / "q.jsonl", "--out", tmp_path / "other.jsonl"],
            "does not hold answers",
        ),
        ([folder, "1+1?", "--format", "xml"], "must be one of text, json"),
        ([tmp_path / "absent", "1+1?"], "There is no folder"),
        ([folder, "1+1?", "--calibrator", "platt"], "It has: uncalibrated"),
    ):
        with pytest.raises(PrmcalError, match=said):
            ask(*arguments)
    assert (tmp_path / "other.jsonl").read_text() == '{"a": 1}\n'


def test_right_answers_in_the_file_are_counted_and_unlike_questions_raise_an_alarm(
    folder: Path, tmp_path: Path
) -> None:
    known = datasets.create("nano-math").questions("test", 10)[4:]
    lines = [{"question": each.text, "answer": each.answer} for each in known]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, lines)))
    _, _, err = ask(folder, "--questions", tmp_path / "new.jsonl", "--out", tmp_path / "a.jsonl", *OPTIONS)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    answered = [row for row in rows if row["answer"] is not None]
    assert f"{sum(row['correct'] for row in answered)} of {len(answered)} graded answers right" in err
    assert "alarm" not in err
    unlike = [each.text + " Take your time." * 9 for each in known * 3]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, unlike)))
    _, _, err = ask(folder, "--questions", tmp_path / "other.jsonl", "--out", tmp_path / "b.jsonl", *OPTIONS)
    assert "An alarm by" in err and "length of the question" in err
