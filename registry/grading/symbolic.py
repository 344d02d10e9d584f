"""Symbolic comparison in a separate process, which is killed and replaced when it exceeds its limits."""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Literal

from prmcal.errors import DataError
from prmcal.registry.grading.structure import Question

Verdict = Literal["correct", "incorrect", "unparsed", "timed out"]
"""``unparsed``: no final answer was found. ``timed out``: the comparison exceeded its limits of time or memory."""

_PROGRAM = Path(__file__).with_name("worker.py")
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
_VERDICTS: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}
_FAILURES = {
    "late": "the grading process got no processor time. Check whether it is stopped or the machine is overloaded, and "
    "run the command again. The comparison was",
    "killed": "the grading process was killed again and again. Check whether the machine runs out of memory, and run "
    "the command again. The comparison was",
}


class SymbolicComparer:
    """Compares mathematics with math-verify, in another process.

    `seconds` limits the processor time of one comparison. Time in which the process does not run does not count, so
    that verdicts do not depend on other load on the machine. `megabytes` limits the address space of the comparing
    process, in MiB. `patience` is the time in seconds to wait for a comparing process that neither answers nor reaches
    its limits. After this time, a new process is asked twice more, with four times the patience each.

    The program (``worker.py``) imports math-verify once and forks the comparing process. A fork that exceeds its limits
    is replaced within milliseconds. The program gets no environment variable that could contain a secret.
    """

    program = _PROGRAM

    def __init__(self, seconds: float = 2.0, megabytes: int = 1024, patience: float = 60.0) -> None:
        self.seconds = seconds
        self.megabytes = megabytes
        self.patience = patience
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def arguments(self) -> tuple[float, ...]:
        """The arguments of the program."""
        return self.seconds, self.megabytes, self.patience

    def verdict(self, question: Question) -> Verdict:
        """Decide a question.

        Raises a DataError if the program cannot be run, or the comparing process gets no processor time or is killed
        again and again.
        """
        request = json.dumps(asdict(question))
        with self._lock:
            for _ in range(2):  # Retry once if the program was killed, for instance by a lack of memory.
                reply = self._ask(request)
                if reply in _VERDICTS:
                    return _VERDICTS[reply]
                if reply in _FAILURES:
                    raise DataError(
                        f"Answers cannot be compared symbolically, because {_FAILURES[reply]}: {request}"
                    )
                self.close()
        raise DataError(
            "Answers cannot be compared symbolically, because the grading process ended at once. Check that the "
            "package math-verify is installed (pip install math-verify). This command shows the error: "
            f"{sys.executable} -P {_PROGRAM} 1 1024 60"
        )

    def close(self) -> None:
        """End the program. The next comparison starts it again."""
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
            [sys.executable, "-P", str(self.program), *map(str, self.arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            start_new_session=True,  # Ctrl-C ends the grading process, and the program then ends with its input.
            text=True,
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
