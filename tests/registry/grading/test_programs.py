"""Programs are run on tests in isolation: right from wrong, limits, and nothing of this machine within reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.grading import grade_answer
from prmcal.registry.grading.processes import ProgramRunner, Verdict
from prmcal.registry.plugins import datasets
from tests.conftest import ROOT

SQUARE = "def f(x): return x * x"
TESTS = "assert f(2) == 4 and f(3) == 9"
DATA = ROOT.parent / "shared" / "data"


def run_tests(program: str, tests: str) -> Verdict:
    return grade_answer(program, tests, "unit-tests")


def isolated() -> bool:
    try:
        return run_tests("", "") == "correct"
    except DataError:
        return False


pytestmark = pytest.mark.skipif(not isolated(), reason="this machine does not isolate programs")


def test_tests_tell_right_from_wrong_and_can_say_where_the_program_stands() -> None:
    assert grade_answer(SQUARE, TESTS, "unit-tests") == "correct"
    assert grade_answer("def f(x): return 2 * x", TESTS, "unit-tests") == "incorrect"
    assert grade_answer("def f(x): return", TESTS, "unit-tests") == "incorrect"
    assert grade_answer("    return x * x", "def f(x):\n{solution}\n" + TESTS, "unit-tests") == "correct"


@pytest.mark.parametrize(
    "program",
    [
        "open('/etc/passwd')",
        "open('written', 'w')",
        "import os; os.mkdir('/made')",
        "import os; os.fork()",
        "import os; os.execv('/bin/sh', ['sh'])",
        "import threading; threading.Thread(target=print).start()",
        "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
        "import os; os.setuid(0)",
        "import os; os.chroot('..')",
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "def f(",
    ],
)
def test_nothing_of_the_machine_is_within_reach(program: str) -> None:
    assert run_tests(program, "") == "incorrect"


def test_other_processes_cannot_be_ended_and_the_next_program_is_run() -> None:
    ended = "import os\nfor number in range(1, 30000):\n    try: os.kill(number, 9)\n    except OSError: pass"
    run_tests(ended, "")
    assert run_tests(SQUARE, TESTS) == "correct"


def test_a_program_that_takes_too_much_is_stopped() -> None:
    runner = ProgramRunner(seconds=1, megabytes=256)
    try:
        assert runner.run("while True: pass") == "timed out"
        assert runner.run("x = 'a' * 10**9") == "timed out"
        assert runner.run(SQUARE) == "correct"
    finally:
        runner.close()


def test_a_program_knows_nothing_of_the_one_before() -> None:
    assert run_tests("import math; math.known = 1", "") == "correct"
    assert run_tests("import math; assert hasattr(math, 'known')", "") == "incorrect"


def test_it_refuses_where_it_cannot_isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Root of a namespace of its own, without another user to become.
    inside = [
        "unshare",
        "--user",
        "--map-root-user",
        sys.executable,
        "-P",
        str(ProgramRunner.program),
        "5",
        "1024",
    ]
    found = subprocess.run(inside, input='"print(1)"\n', capture_output=True, text=True)
    if "unshare failed" in found.stderr:
        pytest.skip("there are no user namespaces")
    assert found.stdout.startswith("cannot ")
    cannot = tmp_path / "sandbox.py"
    cannot.write_text("print('cannot unshare: Operation not permitted')")
    monkeypatch.setattr(ProgramRunner, "program", cannot)
    with pytest.raises(
        DataError, match=r"cannot \(unshare: Operation not permitted\)\. This needs Linux, and either"
    ):
        ProgramRunner().run("print(1)")


def test_a_data_set_grades_code_blocks(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"question": "Square.", "answer": "{solution}\nassert f(2) == 4"}) + "\n")
    block = {"pattern": r"(?s)```(?:python)?\n(.*?)```"}
    data = datasets.create("jsonl", path=str(path), grading="unit-tests", answers=block)
    (question,) = data.questions("test")
    assert isinstance(question, Question)
    assert data.grade(question, f"Like so:\n```python\n{SQUARE}\n```\nDone.") == ("correct", SQUARE)
    assert data.grade(question, "```python\ndef f(x): return x\n```")[0] == "incorrect"
    assert data.grade(question, "I do not know.") == ("unparsed", None)
    assert data.grader_version.startswith("unit-tests 1 (Python 3.")
