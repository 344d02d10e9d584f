"""``prmcal ask``: what a person reads, what a program reads, and many questions from a file."""

from __future__ import annotations

import json
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
    assert found["cell"].endswith(CELL) and found["samples"] == len(found["trajectories"])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_file_of_questions_continues_after_a_kill_and_a_failure_harms_no_other(
    folder: Path, tmp_path: Path
) -> None:
    asked, out = tmp_path / "q.jsonl", tmp_path / "deep" / "answers.jsonl"
    rows = [{"question": text, "id": place, "answer": "1"} for place, text in enumerate(QUESTIONS)]
    bad = [json.dumps(""), json.dumps({"question": f"{NAN} please"})]
    asked.write_text("\n".join([*map(json.dumps, rows[:2]), "", *bad, json.dumps(rows[2])]), encoding="utf-8")
    code, _, told = ask(folder, "--questions", asked, "--out", out, *OPTIONS)
    assert code == 3 and "2 questions failed" in told
    whole = lines(out)
    assert [bool(row.get("error")) for row in whole] == [False, False, True, True, False]
    assert [row.get("id") for row in whole] == [0, 1, None, None, 2]

    text = out.read_text(encoding="utf-8").splitlines(keepends=True)
    out.write_text("".join(text[:2]) + text[2][:40], encoding="utf-8")  # It was killed in the third row.
    ask(folder, "--questions", asked, "--out", out, *OPTIONS)
    assert out.read_text(encoding="utf-8").splitlines(keepends=True)[:2] == text[:2]
    for before, after in zip(whole, lines(out), strict=True):
        assert [before.get(name) for name in ("question", "id", "error")] == [
            after.get(name) for name in ("question", "id", "error")
        ]
        texts = [
            [each["text"] for each in row.get("solution", {}).get("trajectories", ())]
            for row in (before, after)
        ]
        assert texts[0] == texts[1]

    with pytest.raises(PrmcalError, match="other settings"):
        ask(folder, "--questions", asked, "--out", out, "--cell", CELL, "--max-samples", 1)


def test_bad_input_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "no.jsonl").write_text("{")
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "q.jsonl").write_text('"1+1?"\n')
    out = ["--out", tmp_path / "x"]
    for arguments, said in (
        ([folder, ""], "not empty"),
        ([folder, "1+1?", "--questions", tmp_path / "q.jsonl", *out], "Give one QUESTION, or"),
        ([folder, "--questions", tmp_path / "q.jsonl"], "together with --out"),
        ([folder, "1+1?", *out], "together with --out"),
        ([folder, "--questions", tmp_path / "absent", *out], "cannot be read"),
        ([folder, "--questions", tmp_path / "no.jsonl", *out], "JSON lines"),
        ([folder, "--questions", tmp_path / "empty.jsonl", *out], "a question in each line"),
        ([folder, "--questions", tmp_path / "other.jsonl", *out], "a question in each line"),
        (
            [folder, "--questions", tmp_path / "q.jsonl", "--out", tmp_path / "other.jsonl"],
            "does not hold answers",
        ),
        ([folder, "1+1?", "--format", "xml"], "must be one of text, json"),
        ([tmp_path / "absent", "1+1?"], "prmcal run GRID"),
        ([folder, "1+1?", "--calibrator", "platt"], "It has: uncalibrated"),
    ):
        with pytest.raises(PrmcalError, match=said):
            ask(*arguments)
    assert (tmp_path / "other.jsonl").read_text() == '{"a": 1}\n'
