"""Symbolic comparison in a separate process, which is killed and replaced when it exceeds its limits."""

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
from prmcal.registry.grading.structure import Undecided
from prmcal.registry.grading.verdict import Verdict

__all__ = ["SymbolicComparer", "symbolic_verdict"]

_PROGRAM = Path(__file__).with_name("worker.py")
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT")
_VERDICTS: dict[str, Verdict] = {"equal": "correct", "different": "incorrect", "over": "timed out"}


class SymbolicComparer:
    """Compares mathematics with math-verify, in another process.

    Parameters
    ----------
    seconds : float, default=2.0
        The limit on the CPU time of one comparison, in seconds. With CPU time, verdicts hardly depend on other load on
        the machine. The limit on wall-clock time is five times as long.
    megabytes : int, default=1024
        The limit on the address space of the comparing process, in MiB.

    Notes
    -----
    The program (``worker.py``) imports math-verify once and forks the comparing process. A fork that exceeds its limits
    is killed and replaced within milliseconds. The program gets no environment variable that could contain a secret.
    """

    def __init__(self, seconds: float = 2.0, megabytes: int = 1024) -> None:
        self.seconds = seconds
        self.megabytes = megabytes
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def verdict(self, question: Undecided) -> Verdict:
        """Compare the answers with the references.

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
            for _ in range(2):  # Retry once if the program was killed, for instance by a lack of memory.
                reply = self._ask(json.dumps(request))
                if reply in _VERDICTS:
                    return _VERDICTS[reply]
                self.close()
        raise DataError(
            "Answers cannot be compared symbolically, because the grading process ended at once. Check that the "
            "package math-verify is installed (pip install math-verify). This command shows the error: "
            f"{sys.executable} -P {_PROGRAM} 1 1024"
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
            [sys.executable, "-P", str(_PROGRAM), str(self.seconds), str(self.megabytes)],
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


def symbolic_verdict(question: Undecided) -> Verdict:
    """Return the verdict of the comparer of this process, which starts at its first use."""
    return _COMPARER.verdict(question)
