"""``prmcal ask``: what a person reads, and what a program reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import app
from prmcal.registry.plugins import datasets
from tests.conftest import Prmcal
from tests.served_run import CELL, shared_run

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
    assert "Probability" in text and "sample" in text and "learned stopping" in text
    assert "nano-prm calibrated by quantiles, for nano-weak" in text
    assert "(the bare question)" in text and "Calibrated [0.1, 0.9]" in text
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_program_reads_everything_as_json(folder: Path) -> None:
    code, out, _ = ask(folder, "-", *OPTIONS, "--format", "json", given=QUESTIONS[1])
    found = json.loads(out)
    assert code == 0 and found["question"] == QUESTIONS[1]
    assert found["cell"].endswith(CELL) and found["samples"] == len(found["trajectories"])


def test_bad_input_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ([folder, ""], "not empty"),
        ([folder, "1+1?", "--format", "xml"], "must be one of text, json"),
        ([tmp_path / "absent", "1+1?"], "prmcal run GRID"),
        ([folder, "1+1?", "--calibrator", "platt"], "It has: uncalibrated"),
    ):
        with pytest.raises(PrmcalError, match=said):
            ask(*arguments)
