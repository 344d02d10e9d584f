"""Processes that end together with the one that started them, however that one ends."""

from __future__ import annotations

import os
import subprocess

__all__ = ["end_with"]


def end_with(pipe: int) -> None:
    """Make sure that this process, and all that plugins start, such as an engine, end when a pipe is closed.

    The process that started this one holds the other end and writes nothing. A thread would not do: native code of a
    plugin can hold the interpreter's lock for ever.

    Parameters
    ----------
    pipe : int
        The descriptor of the end that is read.
    """
    os.setpgid(0, 0)
    # `kill 0` is for the group.
    subprocess.Popen(["/bin/sh", "-c", "trap '' HUP INT TERM; read -r line; kill -KILL 0"], stdin=pipe)
