"""The program that compares mathematics. It reads requests as JSON lines on stdin, and writes one word each to stdout.

``prmcal.registry.grading.symbolic`` runs it as a file. The process that reads the requests does not evaluate them. It
forks a process that does, and kills the fork when it exceeds its limits.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_WALL_CLOCK_FACTOR = 5
_REFUSED = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.",
    "socket.",
    "ctypes.",
    "shutil.",
)


def _equal(answer: str, reference: str) -> bool:
    """Return whether math-verify finds two LaTeX texts equal. Only its LaTeX parser is used. It evaluates no code."""
    import math_verify
    from latex2sympy2_extended import NormalizationConfig
    from sympy import Eq, simplify

    spelling = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
    latex = [math_verify.LatexExtractionConfig(normalization_config=spelling)]
    given, expected = (
        math_verify.parse(f"${text}$", latex, fallback_mode="no_fallback", parsing_timeout=None)
        for text in (answer, reference)
    )
    if not given or not expected:
        return False
    if isinstance(given[0], Eq) and isinstance(expected[0], Eq):
        # For math-verify, all equations without a solution are equal.
        ratio = simplify((given[0].lhs - given[0].rhs) / (expected[0].lhs - expected[0].rhs))
        return bool(ratio.is_number and ratio.is_finite and ratio != 0)
    return bool(
        math_verify.verify(
            expected, given, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None
        )
    )


def _all_equal(answers: Sequence[str], references: Sequence[str], ordered: bool) -> bool:
    if ordered:
        return all(_equal(a, b) for a, b in zip(answers, references, strict=True))
    left = list(references)
    for answer in answers:
        match = next((reference for reference in left if _equal(answer, reference)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _compare_forever(requests: int, replies: int, seconds: float, memory: int) -> NoReturn:
    """Answer requests in the fork until it is killed. SIGPROF enforces the CPU time, and MemoryError the memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # Some systems cannot limit the address space.
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.addaudithook(_refuse)
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                equal = _all_equal(request["answers"], request["references"], request["ordered"])
                reply = b"equal" if equal else b"different"
            except MemoryError:
                reply = b"over"
            except Exception:  # An answer that the libraries cannot handle is not equal.
                reply = b"different"
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(replies, reply)
    os._exit(0)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Forbid other programs, the network and writing files. A comparison needs none of them."""
    writing = event == "open" and isinstance(arguments[1], str) and not set(arguments[1]) <= set("rbt")
    if writing or event.startswith(_REFUSED):
        raise PermissionError(event)


class _Fork:
    """The comparing process, and the pipes to it."""

    def __init__(self, seconds: float, memory: int) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _compare_forever(requests, replies, seconds, memory)
        os.close(requests)
        os.close(replies)

    def ask(self, line: str, seconds: float) -> str:
        """Return the reply of the fork, or an empty string if it is too late or the fork died."""
        try:
            os.write(self._requests, line.encode())
        except BrokenPipeError:
            return ""
        ready, _, _ = select.select([self._replies], [], [], seconds)
        return os.read(self._replies, 64).decode() if ready else ""

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._requests)
        os.close(self._replies)


def main(seconds: float, megabytes: int) -> None:
    """Answer requests until the input ends."""
    _equal("\\frac{1}{2}x", "\\frac{x}{2}")  # Loads the imports and the parser's tables before the fork.
    fork = _Fork(seconds, megabytes * 2**20)
    try:
        for line in sys.stdin:
            reply = fork.ask(line, _WALL_CLOCK_FACTOR * seconds)
            if reply in ("", "over"):
                fork.kill()
                fork = _Fork(seconds, megabytes * 2**20)
            print(reply or "over", flush=True)
    finally:
        fork.kill()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
