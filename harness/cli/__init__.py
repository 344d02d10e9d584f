"""The command line: a module for each command, with its options, what it does and what it prints.

app      the commands, exit codes, and errors that end a command
options  what commands share: arguments, options and formats of the output

Reports and sites belong in `prmcal.harness.report` and `prmcal.harness.site`.
"""

import os
import signal
import sys
import threading
import time
from typing import NoReturn

_INTERRUPTED = 130
_SECONDS_TO_END = 5.0
_interrupted = threading.Event()


def main() -> None:
    """Run the command line. Ctrl-C ends it with one line and exit code 130, from the first instant."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from prmcal.harness.cli.app import run_command

        run_command()
    except SystemExit as end:
        if not _interrupted.is_set() or not end.code:
            raise
    except BaseException:  # What a library makes of an interrupt, such as DuckDB's "Query interrupted".
        if not _interrupted.is_set():
            raise
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _interrupted.is_set():
        _say_interrupted()
        sys.exit(_INTERRUPTED)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    if not _interrupted.is_set():
        _interrupted.set()
        # Imports and queries may swallow the exception. Then the command is ended from outside.
        threading.Thread(target=_end, daemon=True).start()
    raise KeyboardInterrupt


def _end() -> None:
    time.sleep(_SECONDS_TO_END)
    _say_interrupted()
    os._exit(_INTERRUPTED)


def _say_interrupted() -> None:
    print("prmcal: interrupted. To continue a run, run the same command again.", file=sys.stderr, flush=True)
