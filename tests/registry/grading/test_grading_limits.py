"""Hostile answers are compared in another process with limits, and never run as code."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prmcal.errors import DataError
from prmcal.registry.grading import grade_answer, symbolic
from prmcal.registry.grading.structure import Undecided
from prmcal.registry.grading.symbolic import SymbolicComparer
from tests.conftest import ROOT
from tests.registry.grading.grading_pairs import hostile

TOWER = "5^{5^{5^{5^{5}}}}"
HUNGRY = r"""
import resource
from prmcal.registry.grading.structure import Undecided
from prmcal.registry.grading.symbolic import SymbolicComparer
comparer = SymbolicComparer(seconds=20, megabytes=300)
verdicts = [comparer.verdict(Undecided(True, (each,), ("7",))) for each in ("2^{2^{31}}", r"\sqrt{49}")]
comparer.close()
print(*verdicts, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, sep=",")
"""
"""Run in a separate process, so that the memory of other child processes is not counted."""


@pytest.fixture
def comparer() -> Iterator[SymbolicComparer]:
    found = SymbolicComparer()
    yield found
    found.close()


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A short time limit for all grading in this process."""
    comparer = SymbolicComparer(seconds=0.03)
    monkeypatch.setattr(symbolic, "_COMPARER", comparer)
    yield
    comparer.close()


def question(answer: str, reference: str = "7") -> Undecided:
    return Undecided(True, (answer,), (reference,))


@pytest.mark.usefixtures("short_limit")
def test_two_hundred_hostile_answers_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "was-here"
    answers = hostile(str(marker))
    assert len(answers) >= 200
    before = dict(os.environ), sorted(Path.cwd().iterdir())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, own_start = time.monotonic(), time.process_time()
    verdicts = {answer: grade_answer(answer, "7") for answer in answers}
    assert time.monotonic() - start < 120  # about 10 s on an idle machine
    assert time.process_time() - own_start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # kilobytes
    assert set(verdicts.values()) == {"incorrect", "timed out"}
    assert verdicts["{5}^{{5}^{{5}^{{5}^{5}}}}"] == "timed out"
    assert not marker.exists()
    assert (dict(os.environ), sorted(Path.cwd().iterdir())) == before
    monkeypatch.undo()
    assert grade_answer("x+7", "7+x") == "correct"


def test_a_comparison_that_runs_over_costs_its_own_verdict_only() -> None:
    comparer = SymbolicComparer(seconds=0.3)
    try:
        assert comparer.verdict(question(TOWER)) == "timed out"
        assert comparer.verdict(question("\\sqrt{49}")) == "correct"
        assert comparer.verdict(question("\\sqrt{50}")) == "incorrect"
    finally:
        comparer.close()


def test_memory_is_limited() -> None:
    measured = subprocess.run(
        [sys.executable, "-c", HUNGRY], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
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


def test_a_program_that_cannot_run_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker.py"
    program.write_text("import a_package_that_is_not_installed\n")
    monkeypatch.setattr(symbolic, "_PROGRAM", program)
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
