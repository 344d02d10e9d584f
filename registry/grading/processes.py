"""The programs that compare mathematics and run programs, in processes of their own with limits of time and memory.

A process that exceeds its limits is killed and replaced.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Literal

from prmcal.errors import DataError
from prmcal.registry.grading.structure import Question

Verdict = Literal["correct", "incorrect", "unparsed", "timed out"]
"""``unparsed``: no final answer was found. ``timed out``: the comparison exceeded its limits of time or memory."""

_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
_COMPARED: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}


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
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(BrokenPipeError), process:  # The reader of the unwritten text is gone.
                process.kill()

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
        reply = self.word(request, (*_COMPARED, "failed"))
        if reply in _COMPARED:
            return _COMPARED[reply]
        if reply == "failed":
            raise DataError(
                "Answers cannot be compared symbolically, because the grading process got no processor time or was "
                "killed again and again. Check whether it is stopped, or the machine is overloaded or out of memory, "
                f"and run the command again. The comparison was: {request}"
            )
        raise DataError(
            "Answers cannot be compared symbolically, because the grading process ended at once. Check that the "
            "package math-verify is installed (pip install math-verify). This command shows the error: "
            f"{sys.executable} -P {self.program} 1 1024 60"
        )


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

    def run(self, program: str, tests: str = "") -> Verdict:
        """Return "correct" if a program passes tests, which raise an error where it does not.

        Raises a DataError if it cannot be isolated on this machine. Nothing is run then.
        """
        whole = tests.replace(SOLUTION, program) if SOLUTION in tests else f"{program}\n\n{tests}"
        reply = self.word(json.dumps(f"{whole}\n"), _RUN)
        if reply in _RUN:
            return _RUN[reply]
        raise DataError(
            "Programs of a model are run only where they can be isolated, and here they cannot"
            f"{f' ({reply.removeprefix(_CANNOT)})' if reply else ''}. This needs Linux, and either root or user "
            "namespaces: `unshare --user --net --pid --fork true` must end without an error. Containers often forbid "
            "both: start them with --privileged or --cap-add SYS_ADMIN. To try it: "
            f"{sys.executable} -P {self.program} 5 1024"
        )
