"""Symbolic comparison in a process of its own, which is killed and started again when it runs over its limits."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Verdict
from prmcal.registry.grading.structure import Undecided

__all__ = ["SymbolicComparer", "symbolic_verdict"]

_PROGRAM = Path(__file__).with_name("worker.py")
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
_VERDICTS: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}


class SymbolicComparer:
    """Compares mathematics by math-verify, outside this process.

    Parameters
    ----------
    seconds : float, default=2.0
        Processor time of one comparison, so that verdicts hardly depend on what else the machine does; five times as
        much wall-clock time ends it too.
    megabytes : int, default=1024
        Address space of the process that compares.

    Notes
    -----
    The program (``worker.py``) imports math-verify once and forks the process that compares; a fork that overran is
    killed and replaced within milliseconds. It gets no environment variable that could hold a secret.
    """

    def __init__(self, seconds: float = 2.0, megabytes: int = 1024) -> None:
        self.seconds = seconds
        self.megabytes = megabytes
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def verdict(self, question: Undecided) -> Verdict:
        """Whether the answers equal the references.

        Raises
        ------
        DataError
            If the program cannot be run.
        """
        request = {
            "ordered": question.ordered,
            "answers": question.answers,
            "references": question.references,
        }
        with self._lock:
            for _ in range(2):  # A second time if the program itself was killed, as for want of memory.
                reply = self._ask(json.dumps(request))
                if reply in _VERDICTS:
                    return _VERDICTS[reply]
                self.close()
        raise DataError(
            "Answers cannot be compared symbolically: the grader's process ended at once. Is the package math-verify "
            f"installed (pip install math-verify)? This shows why: {sys.executable} -P {_PROGRAM} 1 1024"
        )

    def close(self) -> None:
        """End the program; it is started again when it is needed."""
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
        # -P: without it the program's folder would come first in the search path and hide modules.
        return subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM), str(self.seconds), str(self.megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            start_new_session=True,  # Ctrl-C is for the process that grades; this one ends when its input does.
            text=True,
        )


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError):  # What was not yet written has no reader any more.
            stream.close()


_COMPARER = SymbolicComparer()
atexit.register(_COMPARER.close)


def symbolic_verdict(question: Undecided) -> Verdict:
    """The verdict of this process's own comparer, started when it is first asked."""
    return _COMPARER.verdict(question)
