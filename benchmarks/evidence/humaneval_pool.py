"""Run recorded programs on the tests of HumanEval and on the model's own tests, and write what was measured.

sudo python -m benchmarks.evidence.humaneval_pool SAMPLES TESTS PROBLEMS OUT.parquet

The three files are those of CodeT for one model (github.com/microsoft/CodeT, MIT): `samples` for each `prompt`, which
are programs in the first and tests in the second, and the problems of HumanEval. The table has a row for each program:
question, solution, tests passed, tests failed, and correct. It has no text. A program ends at its first line that is
not indented, and a test is an assertion that a sample of tests contains among its first five and that names the
function.

Programs of a model are not to be trusted. They run without network (`unshare`), in an empty root folder, as nobody,
without further processes, with limits of memory and CPU time. All this needs root on Linux.
"""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

TESTS, NOBODY = 100, 65534
CPU_SECONDS, TEST_SECONDS, WALL_SECONDS, MEMORY = 5, 0.5, 120, 1 << 30
# What programs import must be loaded before the root folder is empty.
MODULES = (
    "bisect cmath collections copy datetime fractions functools hashlib heapq itertools json math operator random re "
    "statistics string sys time traceback typing unicodedata"
)
_END = re.compile(r"\n(?=\S)")
_FIRST = 5


class _TooLong(BaseException):
    pass


def program(prompt: str, sample: str) -> str:
    """Return the whole program of a completion."""
    return prompt + _END.split("\n" + sample.lstrip("\n"), maxsplit=1)[0] + "\n"


def tests(samples: list[str], name: str) -> list[str]:
    """Return the distinct assertions about a function, the most frequent first."""
    found: Counter[str] = Counter()
    for sample in samples:
        lines = [line.strip() for line in ("assert " + sample.lstrip()).splitlines()]
        kept = [line for line in lines if line.startswith("assert ") and f"{name}(" in line][:_FIRST]
        found.update(sorted({line for line in kept if _is_valid(line)}))
    return [test for test, _ in found.most_common(TESTS)]


def _is_valid(line: str) -> bool:
    try:
        (node,) = ast.parse(line).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare)


def isolated(work: Callable[[], Iterator[bytes]]) -> bytes:
    """Run something in a child with limits, and return the bytes that it has yielded until its end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _child(work, write)
    os.close(write)
    found = b""
    while select.select([read], [], [], WALL_SECONDS)[0] and (part := os.read(read, 1 << 16)):
        found += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    return found


def _child(work: Callable[[], Iterator[bytes]], write: int) -> NoReturn:
    try:
        os.dup2(1, 2)  # Nobody reads what programs print.
        for limit, value in (
            (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_CPU, CPU_SECONDS),
            (resource.RLIMIT_AS, MEMORY),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (value, value))
        signal.signal(signal.SIGVTALRM, _stop)
        for part in work():
            os.write(write, part)
    finally:
        os._exit(0)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _TooLong


def passes(code: str, names: dict[str, Any]) -> bool:
    """Return whether code runs to its end, within the limit of time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, TEST_SECONDS)
    try:
        exec(compile(code, "test", "exec"), names)
    except BaseException:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return True


def measured(code: str, asserted: list[str], check: str) -> tuple[int, int, bool]:
    """Return how many of a model's tests a program passes and fails, and whether it is correct."""

    def own() -> Iterator[bytes]:
        names: dict[str, Any] = {}
        if passes(code, names):
            for test in asserted:
                yield b"1" if passes(test, names) else b"0"

    def given() -> Iterator[bytes]:
        yield b"1" if passes(code + check, {}) else b"0"

    passed = isolated(own).count(b"1")
    return passed, len(asserted) - passed, isolated(given) == b"1"


def inside(paths: list[str], output: int) -> None:
    """Measure all programs in a process that gives up its rights first, and write a line for each."""
    programs, samples, problems = (
        [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()] for path in paths
    )
    by_prompt = {row["prompt"]: row for row in problems}
    for name in MODULES.split():
        __import__(name)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    with tempfile.TemporaryDirectory() as empty:
        Path(empty).chmod(0o555)
        os.chroot(empty)
        os.chdir("/")
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        for question, (row, own) in enumerate(zip(programs, samples, strict=True)):
            problem = by_prompt[row["prompt"]]
            asserted = tests(own["samples"], problem["entry_point"])
            check = f"\n{problem['test']}\ncheck({problem['entry_point']})\n"
            for solution, sample in enumerate(row["samples"]):
                result = measured(program(row["prompt"], sample), asserted, check)
                os.write(output, (json.dumps([question, solution, *result]) + "\n").encode())
        os._exit(0)


def main() -> None:
    """Measure in a process without network, and write the table."""
    *paths, last = sys.argv[1:]
    if last.startswith("fd:"):
        inside(paths, int(last.removeprefix("fd:")))
        return
    import pandas as pd

    read, write = os.pipe()
    command = [
        "unshare",
        "--net",
        sys.executable,
        "-m",
        "benchmarks.evidence.humaneval_pool",
        *paths,
        f"fd:{write}",
    ]
    with subprocess.Popen(command, pass_fds=[write]) as process:
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    assert process.returncode == 0, "The process without network failed."
    columns = ["question", "solution", "tests_passed", "tests_failed", "correct"]
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[:4], "int16"))
    table.to_parquet(last, index=False, compression="zstd")
    print(f"{len(table):,} programs, pass@1 {table['correct'].mean():.4f}")


if __name__ == "__main__":
    main()
