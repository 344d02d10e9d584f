"""Grade a trajectory: compare its final answer with the reference answer, or run its program on tests.

Symbolic comparison and programs run in processes of their own, which are killed and replaced when they exceed their
limits.
"""

import atexit
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import IO, ClassVar, Literal

from prmcal.errors import DataError
from prmcal.registry.grading.latex import equal_in_plain_spelling, exact_number, in_same_unit, spelled
from prmcal.registry.grading.structure import Pair, Question, compare

Verdict = Literal["correct", "incorrect", "unparsed", "timed out"]
"""``unparsed``: no final answer was found. ``timed out``: the comparison exceeded its limits of time or memory."""

_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
_COMPARED: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}
_FAILURES = {
    "late": "the grading process got no processor time. Check whether it is stopped or the machine is overloaded, and "
    "run the command again. The comparison was",
    "killed": "the grading process was killed again and again. Check whether the machine runs out of memory, and run "
    "the command again. The comparison was",
}


class GradingProcess:
    """A program that answers each line of its input with a word, and starts at its first line.

    `program` is its file, and `arguments` are its arguments. It gets no environment variable that could contain a
    secret.
    """

    program: ClassVar[Path]

    def __init__(self, *arguments: float) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def word(self, line: str, known: Collection[str]) -> str:
        """Return the program's answer. It is another than the `known` ones if the program fails twice."""
        with self._lock:
            for _ in range(2):  # Retry once if the program was killed, for instance by a lack of memory.
                reply = self._ask(line)
                if reply in known:
                    break
                self.close()
        return reply

    def close(self) -> None:
        """End the program. The next line starts it again."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            _close(stream)

    def _ask(self, line: str) -> str:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline().strip()

    def _start(self) -> subprocess.Popen[str]:
        # Without -P, the program's folder would be first in the search path, and its files could hide modules.
        return subprocess.Popen(
            [sys.executable, "-P", str(self.program), *map(str, self._arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            start_new_session=True,  # Ctrl-C ends the grading process, and the program then ends with its input.
            text=True,
        )


class SymbolicComparer(GradingProcess):
    """Compares mathematics with math-verify, in another process.

    `seconds` limits the processor time of one comparison. Time in which the process does not run does not count, so
    that verdicts do not depend on other load on the machine. `megabytes` limits the address space of the comparing
    process, in MiB. `patience` is the time in seconds to wait for a comparing process that neither answers nor reaches
    its limits. After this time, a new process is asked twice more, with four times the patience each.

    The program (``worker.py``) imports math-verify once and forks the comparing process. A fork that exceeds its limits
    is replaced within milliseconds.
    """

    program = Path(__file__).with_name("worker.py")

    def __init__(self, seconds: float = 2.0, megabytes: int = 1024, patience: float = 60.0) -> None:
        super().__init__(seconds, megabytes, patience)

    def verdict(self, question: Question) -> Verdict:
        """Decide a question.

        Raises a DataError if the program cannot be run, or the comparing process gets no processor time or is killed
        again and again.
        """
        request = json.dumps(asdict(question))
        reply = self.word(request, _COMPARED.keys() | _FAILURES.keys())
        if reply in _COMPARED:
            return _COMPARED[reply]
        if reply in _FAILURES:
            raise DataError(f"Answers cannot be compared symbolically, because {_FAILURES[reply]}: {request}")
        raise DataError(
            "Answers cannot be compared symbolically, because the grading process ended at once. Check that the "
            "package math-verify is installed (pip install math-verify). This command shows the error: "
            f"{sys.executable} -P {self.program} 1 1024 60"
        )


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError):  # The reader of the unwritten text is gone.
            stream.close()


_COMPARER = SymbolicComparer()
atexit.register(_COMPARER.close)


def symbolic_verdict(question: Question) -> Verdict:
    """Return the verdict of the comparer of this process, which starts at its first use."""
    return _COMPARER.verdict(question)


Grading = Literal["plain", "integer", "symbolic", "unit-tests"]

LONGEST_ANSWER = 400
"""In characters. Longer answers are compared as text only. The longest answer of MATH has 159 characters."""

_LARGEST_INTEGER = 999
"""AIME's answers are integers from 0 to 999."""

_ARITHMETIC = re.compile(
    r"(?!\(\d+\)$)(?:[\d\s+\-/^!(){}.]|\\(?:cdot|times|frac|sqrt|binom|div)(?![a-zA-Z]))+"
)


def grade_answer(answer: str, reference: str, grading: Grading = "symbolic") -> Verdict:
    """Grade a final answer by the right answer, or by a JSON list of the answers that are accepted.

    The comparisons are ``plain``: equal text or equal numbers in plain spelling; ``integer``: equal integers from 0 to
    999, as in AIME; ``symbolic``: equal mathematics in LaTeX; ``unit-tests``: the answer is a Python program that
    passes the reference, which are tests. They are run in isolation. The verdict "timed out" means that the symbolic
    comparison or the program exceeded its limit on processor time or memory. Raises a DataError if the process that
    compares cannot be run, gets no processor time, or is killed again and again, or programs cannot be isolated.
    """
    if grading == "unit-tests":
        return run_tests(answer, reference)
    if len(accepted := _accepted(reference)) > 1 or accepted[0] != reference:
        verdicts = [grade_answer(answer, each, grading) for each in accepted]
        return next((each for each in ("correct", "timed out") if each in verdicts), "incorrect")
    if grading == "plain":
        return _verdict(equal_in_plain_spelling(answer, reference))
    if answer.strip() == reference.strip():
        return "correct"
    if max(len(answer), len(reference)) > LONGEST_ANSWER:
        return "incorrect"
    if grading == "integer":
        return _grade_integer(answer, reference)
    return _grade_mathematics(answer, reference)


@lru_cache(maxsize=8192)
def _grade_mathematics(answer: str, reference: str) -> Verdict:
    given, expected = spelled(answer), spelled(reference)
    values = in_same_unit(given, expected)
    if values is None:
        return "incorrect"
    # y = 2x + 3 and y - 2x = 3
    if given.name != expected.name and ("=" in given.text) != ("=" in expected.text):
        values = given.equation, expected.equation
    found = compare(*values)
    return _verdict(found) if isinstance(found, bool) else symbolic_verdict(found)


def _grade_integer(answer: str, reference: str) -> Verdict:
    given, expected = (spelled(text).text.rpartition("=")[2].strip() for text in (answer, reference))
    number = exact_number(expected)
    if number is None or number.denominator != 1 or not 0 <= number <= _LARGEST_INTEGER:
        return "incorrect"
    if exact_number(given) is None and _ARITHMETIC.fullmatch(given):
        return symbolic_verdict(Pair(given, expected))
    return _verdict(exact_number(given) == number)


def any_of(answers: Sequence[str]) -> str:
    """Return the reference of a question with these accepted answers: the only one, or a JSON list."""
    return answers[0] if len(answers) == 1 else json.dumps(answers, ensure_ascii=False)


def _accepted(reference: str) -> list[str]:
    """Return the accepted answers of a reference. Only a JSON list of texts is a list of them."""
    if reference.lstrip().startswith('["'):
        with contextlib.suppress(ValueError):
            found = json.loads(reference)
            if all(isinstance(each, str) for each in found):
                return list(found)
    return [reference]


def _verdict(equal: bool) -> Verdict:
    return "correct" if equal else "incorrect"


_VERSIONS = {"integer": 2, "symbolic": 3, "unit-tests": 1}


@lru_cache
def grader_version(grading: Grading) -> str:
    """Return the version of the rules and their libraries, for job keys. Raise the number when a verdict can change."""
    if grading == "plain":
        return "1"
    if grading == "unit-tests":
        return f"unit-tests {_VERSIONS[grading]} (Python {'.'.join(platform.python_version_tuple()[:2])})"
    libraries = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("math-verify", "latex2sympy2_extended", "sympy")
    )
    return f"{grading} {_VERSIONS[grading]} ({libraries})"


SOLUTION = "{solution}"
"""What stands in the tests of a question for the program of a solution. Without it, the tests follow the program."""

_CANNOT = "cannot "
_RUN: dict[str, Verdict] = {"passed": "correct", "failed": "incorrect", "over": "timed out"}


class ProgramRunner(GradingProcess):
    """Runs programs in ``sandbox.py``, one after another.

    `seconds` limits the processor time of a program, and `megabytes` its memory. It has no network, no files, and no
    processes besides its own.
    """

    program = Path(__file__).with_name("sandbox.py")

    def __init__(self, seconds: float = 5.0, megabytes: int = 1024) -> None:
        super().__init__(seconds, megabytes)

    def run(self, program: str) -> Verdict:
        """Run a program to its end, and say whether it raises nothing.

        Raises a DataError if it cannot be isolated on this machine. Nothing is run then.
        """
        reply = self.word(json.dumps(program), _RUN)
        if reply in _RUN:
            return _RUN[reply]
        raise DataError(
            "Programs of a model are run only where they can be isolated, and here they cannot"
            f"{f' ({reply.removeprefix(_CANNOT)})' if reply else ''}. This needs Linux, and either root or user "
            "namespaces: `unshare --user --net --pid --fork true` must end without an error. Containers often forbid "
            "both: start them with --privileged or --cap-add SYS_ADMIN. To try it: "
            f"{sys.executable} -P {self.program} 5 1024"
        )


_RUNNER = ProgramRunner()
atexit.register(_RUNNER.close)


def run_tests(program: str, tests: str) -> Verdict:
    """Return "correct" if a program passes tests, which raise an error where it does not."""
    whole = tests.replace(SOLUTION, program) if SOLUTION in tests else f"{program}\n\n{tests}"
    return _RUNNER.run(whole + "\n")
