"""Hostile answers are compared in another process with limits, and never run as code."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prmcal.errors import DataError
from prmcal.registry.grading import grade_answer, rules
from prmcal.registry.grading.processes import SymbolicComparer
from prmcal.registry.grading.structure import Conjunction, Pair
from tests.conftest import ROOT
from tests.registry.grading.grading_pairs import hostile

TOWER = "5^{5^{5^{5^{5}}}}"
HUNGRY = r"""
import resource
from prmcal.registry.grading.structure import Pair
from prmcal.registry.grading.processes import SymbolicComparer
comparer = SymbolicComparer(seconds=20, megabytes=300)
verdicts = [comparer.verdict(Pair(each, "7")) for each in ("2^{2^{31}}", r"\sqrt{49}")]
comparer.close()
print(*verdicts, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, sep=",")
"""
"""Run in a separate process, so that the memory of other child processes is not counted."""
NO_ANSWER = """
import os, sys, time
sys.path.insert(0, {folder!r})
import worker
worker._equal = lambda answer, reference: answer == "6+1" and {fate}
worker.main(2, 1024, patience=0.1)
"""


@pytest.fixture
def comparer() -> Iterator[SymbolicComparer]:
    found = SymbolicComparer()
    yield found
    found.close()


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A short time limit for all grading in this process."""
    comparer = SymbolicComparer(seconds=0.03)
    monkeypatch.setattr(rules, "_COMPARER", comparer)
    yield
    comparer.close()


def question(answer: str, reference: str = "7") -> Pair:
    return Pair(answer, reference)


def processes(comparer: SymbolicComparer) -> list[int]:
    """The process that reads questions and the one that compares, which exist after the first question."""
    assert comparer._process is not None
    program = comparer._process.pid
    children = Path(f"/proc/{program}/task/{program}/children")
    if not children.exists():
        pytest.skip("this system does not list child processes")
    return [program, *map(int, children.read_text().split())]


@pytest.mark.usefixtures("short_limit")
def test_two_hundred_hostile_answers_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "was-here"
    answers = hostile(str(marker))
    assert len(answers) >= 200
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = dict(os.environ)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    verdicts = {answer: grade_answer(answer, "7") for answer in answers}
    assert time.process_time() - start < 4  # about 0.1 s
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # kilobytes
    assert set(verdicts.values()) == {"incorrect", "timed out"}
    assert verdicts["{5}^{{5}^{{5}^{{5}^{5}}}}"] == "timed out"
    assert not marker.exists()
    assert dict(os.environ) == before
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    assert grade_answer("x+7", "7+x") == "correct"


def test_a_comparison_that_runs_over_costs_its_own_verdict_only() -> None:
    comparer = SymbolicComparer(seconds=1)
    try:
        assert comparer.verdict(question(TOWER)) == "timed out"
        assert comparer.verdict(question("\\sqrt{49}")) == "correct"
        assert comparer.verdict(question("\\sqrt{50}")) == "incorrect"
    finally:
        comparer.close()


def test_the_limit_holds_for_all_elements_of_a_list_together() -> None:
    comparer = SymbolicComparer(seconds=0.01)
    texts = [f"x^{{{power}}}+\\sqrt{{x^{{{power}}}}}" for power in range(2, 20)]
    try:
        pairs = tuple(Pair(text, f"({text})+1-1") for text in texts)
        assert comparer.verdict(Conjunction(pairs)) == "timed out"
    finally:
        comparer.close()


def test_time_in_which_a_process_does_not_run_does_not_count() -> None:
    comparer = SymbolicComparer(seconds=0.5)
    try:
        assert comparer.verdict(question("6+1")) == "correct"
        for process in processes(comparer):
            os.kill(process, signal.SIGSTOP)
            again = threading.Timer(3, os.kill, (process, signal.SIGCONT))
            again.start()
            assert comparer.verdict(question("5+2")) == "correct"
            again.join()
    finally:
        comparer.close()


def test_a_process_that_does_not_go_on_is_replaced() -> None:
    comparer = SymbolicComparer(patience=2)
    try:
        assert comparer.verdict(question("6+1")) == "correct"
        _, stopped = processes(comparer)
        os.kill(stopped, signal.SIGSTOP)
        assert comparer.verdict(question("5+2")) == "correct"
        assert stopped not in processes(comparer)
    finally:
        comparer.close()


@pytest.mark.parametrize(
    ("fate", "message"),
    [("time.sleep(600)", "got no processor time"), ("os.kill(os.getpid(), 9)", "was killed again and again")],
)
def test_a_process_that_never_answers_is_an_error_and_no_verdict(
    fate: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(NO_ANSWER.format(folder=str(SymbolicComparer.program.parent), fate=fate))
    monkeypatch.setattr(SymbolicComparer, "program", program)
    comparer = SymbolicComparer()
    try:
        with pytest.raises(DataError, match=f'{message}.*"6\\+1"'):
            comparer.verdict(question("6+1"))
    finally:
        comparer.close()


def test_memory_is_limited() -> None:
    measured = subprocess.run(
        [sys.executable, "-c", HUNGRY], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    hungry, modest, kilobytes = measured.stdout.split(",")
    assert hungry in ("timed out", "incorrect")  # 256 MiB and more
    assert modest == "correct"
    assert int(kilobytes) < 400_000


def test_a_killed_program_is_started_again(comparer: SymbolicComparer) -> None:
    assert comparer.verdict(question("6+1")) == "correct"
    assert comparer._process is not None
    os.kill(comparer._process.pid, signal.SIGKILL)
    assert comparer.verdict(question("5+2")) == "correct"


def test_a_program_that_cannot_run_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "worker.py"
    program.write_text("import a_package_that_is_not_installed\n")
    monkeypatch.setattr(SymbolicComparer, "program", program)
    comparer = SymbolicComparer()
    with pytest.raises(DataError, match="package math-verify is installed"):
        comparer.verdict(question("6+1"))


def test_the_program_gets_no_secrets(comparer: SymbolicComparer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert comparer.verdict(question("6+1")) == "correct"
    assert comparer._process is not None
    environment = Path(f"/proc/{comparer._process.pid}/environ")
    if not environment.exists():
        pytest.skip("no /proc on this system")
    assert b"secret" not in environment.read_bytes()
