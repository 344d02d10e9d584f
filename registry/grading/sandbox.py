"""The program that runs programs of a model. It reads them as JSON lines on stdin, and writes one word each to stdout.

``prmcal.registry.grading.processes`` runs it as a file. It first gives up its rights for good: it has namespaces of its
own for the network and for processes, an empty root folder, and no capabilities; root becomes nobody. Then it forks a
child for each program, with limits of processor time, memory and files and without further processes. The words are:

- ``passed`` and ``failed``;
- ``over``: the program exceeded its limits of time or memory;
- ``cannot``, with a reason: this machine does not isolate it. Nothing was run.

This protects the machine. It does not protect the grade: a program that searches for a way to pass can find one.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import tempfile
from typing import NoReturn

# What programs import must be loaded before the root folder is empty.
_MODULES = (
    "array bisect cmath collections copy dataclasses datetime decimal enum fractions functools hashlib heapq inspect "
    "itertools json math operator queue random re statistics string sys textwrap time traceback typing unicodedata"
)
_NEW_NETWORK, _NEW_PROCESSES, _NEW_IPC, _NEW_USER = 0x40000000, 0x20000000, 0x08000000, 0x10000000
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_CAPABILITIES = 0x20080522
_NOBODY = 65534
_WAITING = 10
"""A program may wait this many times as long as it may compute."""


def isolate() -> None:
    """Give up all rights, in a new process that has no others. Raises OSError if the machine does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    root = os.geteuid() == 0
    call("unshare", _NEW_NETWORK | _NEW_PROCESSES | _NEW_IPC | (0 if root else _NEW_USER))
    if child := os.fork():  # Only a child is in the new namespace of processes.
        os.closerange(0, 2)
        os.waitpid(child, 0)
        os._exit(0)
    os.chdir(empty := tempfile.mkdtemp())
    os.rmdir(empty)  # noqa: PTH106  # Nothing can be written into a folder that is gone.
    os.chroot(".")
    if root:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    call("capset", header, none)
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def outcome(program: str, seconds: float, memory: int, null: int) -> str:
    """Run a program in a child, and return the word for its end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _run(program, seconds, memory, null, write)
    os.close(write)
    ready, _, _ = select.select([read], [], [], _WAITING * seconds)
    word = os.read(read, 1) if ready else b"o"
    os.close(read)
    os.kill(child, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    over = word == b"o" or (not word and ended in (-signal.SIGXCPU, -signal.SIGKILL))
    return "over" if over else "passed" if word == b"p" else "failed"


def _run(program: str, seconds: float, memory: int, null: int, write: int) -> NoReturn:
    word = b"f"
    try:
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.dup2(write, 3)
        os.closerange(4, 1024)
        computing = max(1, round(seconds))
        for limit, soft, hard in (
            (resource.RLIMIT_NPROC, 0, 0),
            (resource.RLIMIT_CPU, computing, computing + 1),
            (resource.RLIMIT_AS, memory, memory),
            (resource.RLIMIT_FSIZE, 0, 0),
            (resource.RLIMIT_NOFILE, 4, 4),
            (resource.RLIMIT_CORE, 0, 0),
        ):
            resource.setrlimit(limit, (soft, hard))
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})
        word = b"p"
    except MemoryError:
        word = b"o"
    except BaseException:  # A program may end itself in any way.
        word = b"f"
    finally:
        os.write(3, word)
        os._exit(0)


def main(seconds: float, megabytes: int) -> None:
    """Answer requests until the input ends."""
    for name in _MODULES.split():
        __import__(name)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        isolate()
    except (OSError, AttributeError) as error:  # Other systems have no `unshare`.
        print(f"cannot {error}", flush=True)
        return
    for line in sys.stdin:
        print(outcome(json.loads(line), seconds, megabytes * 2**20, null), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
