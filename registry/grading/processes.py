"""The program that compares mathematics, in a process of its own with limits of time and memory."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from prmcal.errors import DataError
from prmcal.registry.grading.structure import Question

Verdict = Literal["correct", "incorrect", "unparsed", "timed out", "failed", "unknown words", "ambiguous comma"]
"""``unparsed``: no final answer was found. ``timed out``: the comparison exceeded its limits of time or memory."""
UNDECIDED: tuple[Verdict, ...] = ("unparsed", "timed out", "failed", "unknown words", "ambiguous comma")
"""Verdicts of a grader that could not read an answer, or not decide. They count as wrong."""

_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
"""No other variable is given to the program: it could contain a secret."""
_COMPARED: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}
_FAILED = "failed"


class SymbolicComparer:
    """Compares mathematics with math-verify, in another process, which starts at the first question.

    `seconds` limits the processor time of one comparison. Only the time in which the process runs counts, so that
    verdicts do not depend on other load on the machine. `megabytes` limits the address space of the comparing process,
    in MiB. `patience` is the time in seconds to wait for a comparing process that neither answers nor reaches its
    limits. After this time, two more processes try, each with four times the patience of the one before.

    The program (``worker.py``) imports math-verify once and forks the comparing process. A fork that exceeds its limits
    is replaced within milliseconds.
    """

    program = Path(__file__).with_name("worker.py")

    def __init__(self, seconds: float = 2.0, megabytes: int = 1024, patience: float = 60.0) -> None:
        self._arguments = seconds, megabytes, patience
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def verdict(self, question: Question) -> Verdict:
        """Decide a question.

        Raises a DataError if the program cannot be run, or the comparing process gets no processor time or is killed
        again and again.
        """
        request = json.dumps(asdict(question))
        with self._lock:
            for _ in range(2):  # Retry once if the program was killed, for instance by a lack of memory.
                reply = self._ask(request)
                if reply in (*_COMPARED, _FAILED):
                    break
                self.close()
        if reply in _COMPARED:
            return _COMPARED[reply]
        if reply == _FAILED:
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

    def close(self) -> None:
        """End the program. The next question starts it again."""
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
